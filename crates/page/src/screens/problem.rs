//! When something can not be shown or done.

use maud::html;

use crate::parts::{PagePlace, Shell, foreign};

/// Says what went wrong, and where to go from there.
pub fn problem(shell: &Shell, title: &str, detail: &str, back: &str) -> String {
    let content = html! {
        p { (foreign(detail)) }
        p { a href=(back) { "Back" } }
    };
    shell.page(PagePlace::Nowhere, title, &content)
}
