//! Asks before something is done that can not be taken back.

use maud::html;

use crate::parts::{PagePlace, Shell, foreign};

/// What is about to be done.
#[derive(Clone, Debug)]
pub struct ConfirmScreen {
    /// In a few words, as a question.
    pub title: String,
    /// What it means.
    pub detail: String,
    /// What the button says, where it leads, and what it carries.
    pub label: String,
    /// Where the answer is sent.
    pub action: String,
    /// What was sent with the question.
    pub fields: Vec<(String, String)>,
    /// The way back.
    pub back: String,
}

impl ConfirmScreen {
    /// The page.
    pub fn page(&self, shell: &Shell) -> String {
        let content = html! {
            p { (foreign(&self.detail)) }
            @if let Some(token) = &shell.form_token {
                form method="post" action=(self.action) {
                    input type="hidden" name="token" value=(token);
                    input type="hidden" name="sure" value="1";
                    @for (name, value) in &self.fields { input type="hidden" name=(name) value=(value); }
                    button { (self.label) } " " a href=(self.back) { "No, back" }
                }
            }
        };
        shell.page(PagePlace::Nowhere, &self.title, &content)
    }
}
