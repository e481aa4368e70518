//! A look at the bus for `tidings doctor`, by a process that is no replica.

use tidings_cluster::{BusError, BusExamination, examine_bus};
use tidings_hub::fleet::ReplicaId;

use super::desk::FleetSettings;

impl FleetSettings {
    /// What is found of the bus with these settings; nothing is made there, and no replica notices.
    pub async fn examine(&self) -> Result<BusExamination, BusError> {
        // Nobody is told of this name: whoever only looks sends nothing.
        let nobody = ReplicaId { name: self.replica.as_str().into(), incarnation: 0 };
        // The configuration was checked, so this is out of reach.
        let settings = self.bus(nobody).map_err(|error| BusError::Refused(error.to_string()))?;
        examine_bus(settings).await
    }
}
