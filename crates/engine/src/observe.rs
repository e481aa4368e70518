//! What people and programs can see of the engine: states, measures, the record of changes.
//!
//! Belongs here: counting and showing. Not here: anything that decides.

pub(crate) mod audit;
pub(crate) mod call_meters;
pub(crate) mod catalogue_store;
pub(crate) mod change_spans;
pub(crate) mod journal;
pub(crate) mod meters;
pub(crate) mod remarks;
pub(crate) mod request_span;
pub(crate) mod status;
pub(crate) mod telemetry;
pub(crate) mod update_spans;
