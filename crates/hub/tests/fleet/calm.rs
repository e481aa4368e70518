//! How soon clients are told, where nothing goes wrong: from the moment at which the log has an entry to the notice at the client.

use crate::bus::Micros;
use crate::replica::LogPoint;

/// The times of one world. They say nothing where the log began anew: places of the log are counted once.
#[derive(Default)]
pub(crate) struct TellingTimes {
    /// When the log had its entries, by their places.
    written: Vec<Micros>,
    told: Vec<Micros>,
}

impl TellingTimes {
    pub(crate) fn written(&mut self, place: usize, now: Micros) {
        self.written.resize(place, now);
    }

    pub(crate) fn told(&mut self, point: LogPoint, now: Micros) {
        let place = usize::try_from(point.sequence.0).unwrap();
        if let Some(written) = place.checked_sub(1).and_then(|at| self.written.get(at)) {
            self.told.push(now.saturating_sub(*written));
        }
    }

    pub(crate) fn sorted(&mut self) -> Vec<Micros> {
        self.told.sort_unstable();
        std::mem::take(&mut self.told)
    }
}
