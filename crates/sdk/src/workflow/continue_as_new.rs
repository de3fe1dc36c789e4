//! The end of a run that goes on as another one.

use segno_proto::common::{Header, Payload};

use crate::options::ContinueOptions;

/// A wish to begin again, with a new history.
pub struct ContinueAsNew {
    pub(crate) kind: String,
    pub(crate) input: Vec<Payload>,
    pub(crate) options: Box<ContinueOptions>,
    pub(crate) header: Option<Header>,
}
