//! Continue-as-new: the end of a run with the start of the next one.

use segno_proto::common::{Header, Payload};

use crate::options::ContinueOptions;

/// A wish to begin again, with a new history.
pub struct ContinueAsNew {
    pub(crate) kind: String,
    pub(crate) input: Vec<Payload>,
    pub(crate) options: Box<ContinueOptions>,
    pub(crate) header: Option<Header>,
}
