//! Arguments as interceptors see them.

use segno_proto::common::Payload;
use serde::{Serialize, de::DeserializeOwned};

use super::{ConversionError, decode, encode, encode_json};

/// The arguments of a call as interceptors see them: one payload each, in the form that they have before a
/// [`DataConverter`](super::DataConverter) and the codecs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments(pub Vec<Payload>);

impl Arguments {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The argument at this place, from 0.
    pub fn get<T: DeserializeOwned + 'static>(&self, index: usize) -> Result<T, ConversionError> {
        match self.0.get(index) {
            Some(argument) => decode(std::slice::from_ref(argument), 1),
            None => Err(self.missing(index)),
        }
    }

    /// Puts another value in the place of an argument.
    pub fn set<T: Serialize + 'static>(&mut self, index: usize, value: &T) -> Result<(), ConversionError> {
        // Nothing, `()`, is no payload; in the place of an argument it is `null`.
        let payload = match encode(value, 1)?.pop() {
            Some(payload) => payload,
            None => encode_json(value)?,
        };
        let missing = self.missing(index);
        *self.0.get_mut(index).ok_or(missing)? = payload;
        Ok(())
    }

    fn missing(&self, index: usize) -> ConversionError {
        ConversionError(format!("there is no argument {index}: there are {}", self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_changed() {
        let mut arguments = Arguments(encode(&(1u32, "two".to_owned()), 2).unwrap());
        assert_eq!((arguments.len(), arguments.is_empty()), (2, false));
        assert_eq!((arguments.get::<u32>(0).unwrap(), arguments.get::<String>(1).unwrap()), (1, "two".to_owned()));
        arguments.set(1, &3u32).unwrap();
        assert_eq!(decode::<(u32, u32)>(&arguments.0, 2).unwrap(), (1, 3));
        arguments.set(0, &()).unwrap();
        assert_eq!(arguments.get::<Option<u32>>(0).unwrap(), None);
        assert!(arguments.get::<bool>(1).is_err());
        let missing = "there is no argument 2: there are 2";
        assert_eq!(arguments.get::<u32>(2).unwrap_err().to_string(), missing);
        assert_eq!(arguments.set(2, &1u32).unwrap_err().to_string(), missing);
    }
}
