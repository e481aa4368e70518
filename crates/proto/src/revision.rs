//! The five published revisions, and the era of each. A new one is added here first; the compiler and the tables beside this
//! file name the rest.

use std::fmt;

/// A protocol revision. Ordered by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// The first revision, with the two endpoints of HTTP+SSE.
    V2024_11_05,
    /// Streamable HTTP, batches, audio, tool annotations.
    V2025_03_26,
    /// Structured output, elicitation, resource links; no batches.
    V2025_06_18,
    /// Icons, URL elicitation, tasks.
    V2025_11_25,
    /// Stateless requests, `subscriptions/listen`, multi-round-trip requests.
    V2026_07_28,
}

/// Two ways of talking: a session opened by `initialize`, or requests that carry everything themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// 2024-11-05 to 2025-11-25: a session that `initialize` opens.
    Legacy,
    /// 2026-07-28 and later: requests that carry everything themselves.
    Modern,
}

impl Revision {
    /// All, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
    /// What a legacy client is offered when it asks for something unknown.
    pub const LATEST_LEGACY: Self = Self::V2025_11_25;
    /// The revision that modern requests are made in.
    pub const MODERN: Self = Self::V2026_07_28;

    /// From its wire text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// Its wire text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Which way of talking it uses.
    pub const fn era(self) -> Era {
        match self {
            Self::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }

    /// The revision a legacy session speaks when the client asked for `wanted`.
    pub fn negotiate(wanted: &str) -> Self {
        Self::parse(wanted).filter(|r| r.era() == Era::Legacy).unwrap_or(Self::LATEST_LEGACY)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Era {
    /// The word used in configuration and output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}
