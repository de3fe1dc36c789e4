//! Reads lists page by page.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Client, ClientError};

/// How many entries a page has at most.
pub(crate) const PAGE: i32 = 1_000;

/// Entries of a list that a filter matches, fetched a page at a time.
pub(crate) struct Pages<T> {
    pub client: Client,
    pub query: String,
    page: VecDeque<T>,
    /// Where the next page begins; `None`: there is none.
    token: Option<Bytes>,
}

impl<T> Pages<T> {
    /// Nothing is fetched yet.
    pub fn new(client: Client, query: String) -> Self {
        Self { client, query, page: VecDeque::new(), token: Some(Bytes::new()) }
    }

    /// The next entry; `None` at the end. `fetch` gets the token of a page and gives its entries and the next token.
    pub async fn next(
        &mut self,
        fetch: impl AsyncFn(&Self, Bytes) -> Result<(Vec<T>, Bytes), ClientError>,
    ) -> Result<Option<T>, ClientError> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                return Ok(Some(entry));
            }
            let Some(token) = self.token.clone() else { return Ok(None) };
            let (entries, next) = fetch(self, token).await?;
            self.page = entries.into();
            self.token = Some(next).filter(|token| !token.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_follow_each_other_to_the_last() {
        let client = Client::builder().lazy().connect().await.unwrap();
        let mut pages = Pages::new(client, String::new());
        let fetch = async |_: &Pages<u32>, token: Bytes| {
            Ok(match token.as_ref() {
                b"" => (vec![1, 2], Bytes::from_static(b"empty")),
                // A page may be empty and yet not the last.
                b"empty" => (vec![], Bytes::from_static(b"last")),
                b"last" => (vec![3], Bytes::new()),
                _ => panic!("no such page"),
            })
        };
        let mut all = Vec::new();
        while let Some(entry) = pages.next(fetch).await.unwrap() {
            all.push(entry);
        }
        assert_eq!(all, [1, 2, 3]);
        assert_eq!(pages.next(fetch).await.unwrap(), None);
    }
}
