//! The published revisions, their eras, and what each has: the one table of differences that are not differences of eras.
//!
//! Code elsewhere asks a predicate ("does it have batches?") or the era, and never compares with a revision: a new revision
//! is a variant here, and an answer for each predicate; the compiler and the tables beside this file name the rest.

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
    /// The newest modern one: what the gateway speaks where it begins.
    pub const MODERN: Self = Self::V2026_07_28;

    /// From its wire text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == text)
    }

    /// The date by which it is named in messages and headers.
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
            Self::V2024_11_05 | Self::V2025_03_26 | Self::V2025_06_18 | Self::V2025_11_25 => Era::Legacy,
            Self::V2026_07_28 => Era::Modern,
        }
    }

    /// The modern revision of this wire text.
    pub fn parse_modern(text: &str) -> Option<Self> {
        Self::parse(text).filter(|revision| revision.era() == Era::Modern)
    }

    /// The legacy revision of this wire text.
    pub fn parse_legacy(text: &str) -> Option<Self> {
        Self::parse(text).filter(|revision| revision.era() == Era::Legacy)
    }

    /// All of one era, oldest first.
    pub fn of_era(era: Era) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |revision| revision.era() == era)
    }

    /// The revision a legacy session speaks when the client asked for `wanted`.
    pub fn negotiate(wanted: &str) -> Self {
        // The protocol has the server answer with a version of its own where it does not know the client's; the client
        // then decides.
        Self::parse_legacy(wanted).unwrap_or(Self::LATEST_LEGACY)
    }

    /// Whether several messages may come as one.
    pub const fn has_batches(self) -> bool {
        // Brought by one revision, and taken away by the next.
        matches!(self, Self::V2025_03_26)
    }

    /// Whether a stream of a session may be closed before the answer and picked up again: it begins with an event that has
    /// an id and no message, and may name the pause.
    pub const fn resumes_streams(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether a result may be an error that sends the user to a URL first.
    pub const fn refuses_with_urls(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether tools say in `execution` how they can be run.
    pub const fn has_execution(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }

    /// Whether a tool's title stands in its annotations, and nowhere else.
    pub const fn titles_in_annotations(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Whether progress has a text.
    pub fn has_progress_text(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether servers may declare `completions`.
    pub fn declares_completions(self) -> bool {
        self >= Self::V2025_03_26
    }

    /// Whether items of lists have a `_meta`, by which extensions say more of them.
    pub fn has_item_meta(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether a request for completions tells what is filled in already.
    pub fn has_completion_context(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether things have a title beside their name.
    pub fn has_titles(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether servers may put a form to the user.
    pub fn has_elicitation(self) -> bool {
        self >= Self::V2025_06_18
    }

    /// Whether servers may send the user to a URL; forms have modes then, and titled and multiple choices.
    pub fn has_url_elicitation(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether servers and what they offer have icons, and servers a description and a web site.
    pub fn has_icons(self) -> bool {
        self >= Self::V2025_11_25
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_has_what_its_specification_says() {
        let having = |has: fn(Revision) -> bool| Revision::ALL.map(|revision| u8::from(has(revision)));
        assert_eq!(having(Revision::has_batches), [0, 1, 0, 0, 0]);
        assert_eq!(having(Revision::titles_in_annotations), [0, 1, 0, 0, 0]);
        assert_eq!(having(Revision::resumes_streams), [0, 0, 0, 1, 0]);
        assert_eq!(having(Revision::refuses_with_urls), [0, 0, 0, 1, 0]);
        assert_eq!(having(Revision::has_execution), [0, 0, 0, 1, 0]);
        assert_eq!(having(Revision::has_progress_text), [0, 1, 1, 1, 1]);
        assert_eq!(having(Revision::declares_completions), [0, 1, 1, 1, 1]);
        assert_eq!(having(Revision::has_completion_context), [0, 0, 1, 1, 1]);
        assert_eq!(having(Revision::has_titles), [0, 0, 1, 1, 1]);
        assert_eq!(having(Revision::has_elicitation), [0, 0, 1, 1, 1]);
        assert_eq!(having(Revision::has_url_elicitation), [0, 0, 0, 1, 1]);
        assert_eq!(having(Revision::has_icons), [0, 0, 0, 1, 1]);
        assert_eq!(having(|revision| revision.era() == Era::Modern), [0, 0, 0, 0, 1]);
        assert_eq!(Revision::of_era(Era::Modern).last(), Some(Revision::MODERN));
        assert_eq!(Revision::of_era(Era::Legacy).last(), Some(Revision::LATEST_LEGACY));
    }
}
