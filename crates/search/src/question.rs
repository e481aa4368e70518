//! What is asked: the words, and what else is known of them.

/// A question, ready to be searched for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Question {
    /// What the caller typed, before it is taken apart into words.
    pub text: String,
    /// What it means, where there is a model; of length one.
    pub vector: Option<Vec<f32>>,
    /// Tools that the same caller used after similar questions.
    pub preferred: Vec<PreferredTool>,
}

/// A tool that was used after a similar question.
#[derive(Debug, Clone, PartialEq)]
pub struct PreferredTool {
    /// The name of its server.
    pub server: String,
    /// What that server calls it.
    pub tool: String,
    /// How similar the question and how usual the use: above 0, below 1.
    pub strength: f32,
}

impl Question {
    /// A question of words alone, without a vector: only the words are matched.
    #[must_use]
    pub fn of_words(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// The same, with what was used before.
    #[must_use]
    pub fn preferring(mut self, preferred: Vec<PreferredTool>) -> Self {
        self.preferred = preferred;
        self
    }
}
