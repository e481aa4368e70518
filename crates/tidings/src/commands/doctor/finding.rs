//! One thing that was looked at.

use serde_json::{Value, json};

/// How bad a finding is; the worst decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingLevel {
    Fine,
    /// Worth knowing; nothing is broken.
    Note,
    Problem,
}

impl FindingLevel {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

/// What was found, and what to do about it.
#[derive(Debug)]
pub(super) struct DoctorFinding {
    pub(super) level: FindingLevel,
    /// What was looked at: `data`, `server notes`, `watch orders`.
    pub(super) about: String,
    pub(super) what: String,
    /// Always there, unless it is fine.
    pub(super) remedy: Option<String>,
    /// SQL that belongs to it.
    pub(super) sql: Option<String>,
}

impl DoctorFinding {
    pub(super) fn fine(about: impl Into<String>, what: impl Into<String>) -> Self {
        Self { level: FindingLevel::Fine, about: about.into(), what: what.into(), remedy: None, sql: None }
    }

    pub(super) fn note(about: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Note, remedy: Some(remedy.into()), ..Self::fine(about, what) }
    }

    pub(super) fn problem(about: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { level: FindingLevel::Problem, remedy: Some(remedy.into()), ..Self::fine(about, what) }
    }

    pub(super) fn with_sql(self, sql: String) -> Self {
        Self { sql: Some(sql).filter(|sql| !sql.is_empty()), ..self }
    }

    pub(super) fn json(&self) -> Value {
        let mut value = json!({ "level": self.level.word(), "about": self.about, "what": self.what });
        for (key, text) in [("remedy", &self.remedy), ("sql", &self.sql)] {
            if let Some(text) = text {
                value[key] = json!(text);
            }
        }
        value
    }
}
