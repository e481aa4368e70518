//! One change, as it is kept and shown.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The names of the lists.
pub(crate) const KINDS: [&str; 4] = ["tools", "prompts", "resources", "resource_templates"];
/// How many names each list of a record may hold.
pub const MOST_NAMES: usize = 10_000;

/// What one commit changed in one list of one server. Names are the server's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// Its number: higher than that of every earlier change, and never given twice. The log sets it.
    // Stays the first member: the chain finds the number, and puts the hash behind it, at the beginning of the line.
    #[serde(default)]
    pub seq: u64,
    /// When the new state could be read.
    // Stays before the names, which can be long: `time_of` looks for it in the first 256 bytes of the line.
    pub time: Timestamp,
    /// The number of the commit since which it can be read, by which notices of it are found: milliseconds since 1970, made strictly
    /// increasing. Absent of what nobody sees yet, and of what happened while no gateway looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<u64>,
    /// The configured name of the server.
    pub server: String,
    /// `tools`, `prompts`, `resources` or `resource_templates`.
    pub kind: String,
    /// Names or URIs that are there now and were not before.
    pub added: Vec<String>,
    /// Names or URIs that were there before and are not now.
    pub removed: Vec<String>,
    /// What says something else now.
    pub changed: Vec<ChangedItem>,
    /// Whether it happened while no gateway looked, and was found at the first listing of this one. Of items that changed only the
    /// names are known then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub while_down: bool,
    /// Whether nobody sees it yet: the server offers it, and it waits for approval.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// How much it matters: `suspect`, `breaking`, `wording` or `quiet`. Absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Why, for the items that make it breaking or suspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<ItemRemark>,
    /// How many names were left out of the three lists because there were too many.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// How many changes before this one could not be recorded. The log sets it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

/// Why a change of one item matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRemark {
    /// What the server calls the item.
    pub name: String,
    /// How much it matters, as in the record.
    pub severity: String,
    /// The reasons in words, the loudest first. They may hold text of the server.
    pub reasons: Vec<String>,
}

/// One item that is there before and after.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ChangedItem {
    /// What the server calls it.
    pub name: String,
    /// The members that differ, sorted.
    pub fields: Vec<String>,
    /// The same members with their values before and after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<FieldChange>,
}

/// One member before and after; absent where it did not exist.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FieldChange {
    /// The member's name.
    pub field: String,
    /// Its value before the commit, as raw JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<RawValue>>,
    /// Its value since the commit, as raw JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Box<RawValue>>,
    /// Whether the values are left out because they are too large.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl ChangeRecord {
    /// About how much memory it takes while it waits to be written.
    pub(crate) fn weight(&self) -> usize {
        let names = self.added.iter().chain(&self.removed).map(|name| name.len() + 24).sum::<usize>();
        let changed = self.changed.iter().map(ChangedItem::weight).sum::<usize>();
        let remarks = self.remarks.iter().map(|remark| remark.reasons.iter().map(String::len).sum::<usize>() + 128);
        self.server.len() + names + changed + remarks.sum::<usize>() + 128
    }
}

impl ChangedItem {
    fn weight(&self) -> usize {
        let raw = |value: &Option<Box<RawValue>>| value.as_ref().map_or(0, |raw| raw.get().len());
        let diff = self.diff.iter().map(|d| d.field.len() + raw(&d.before) + raw(&d.after) + 64).sum::<usize>();
        self.name.len() + self.fields.iter().map(|field| field.len() + 24).sum::<usize>() + diff + 64
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
