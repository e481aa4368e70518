//! Pages made from a few lines of JSON: `template` and `config` of `ui.meta.json`.
//!
//! One page does for all of them. The configuration stands in it as data, a script of ours draws it and speaks to the client
//! as MCP Apps asks for. It loads nothing from elsewhere, so that it works without a network and under the strictest policy.

use serde_json::Value;

/// The templates that there are.
pub(super) const NAMES: [&str; 6] = ["data-table", "diff-viewer", "form", "kanban", "progress", "tree-view"];
/// What `template` may be, in words.
pub(super) const WANTED: &str = "data-table, diff-viewer, form, kanban, progress or tree-view";

const PAGE: &str = include_str!("page.html");

/// The page that a template makes of its configuration.
pub(super) fn page(template: &str, config: &Value) -> Option<String> {
    if !NAMES.contains(&template) {
        return None;
    }
    let title = config["title"].as_str().unwrap_or(match template {
        "data-table" => "Data",
        "diff-viewer" => "Diff",
        "form" => "Form",
        "kanban" => "Board",
        "progress" => "Progress",
        _ => "Tree",
    });
    let data = serde_json::json!({ "template": template, "config": config, "title": title });
    // Inside a script nothing is special but what could end it.
    let data = data.to_string().replace('<', "\\u003c");
    Some(PAGE.replace("@TITLE@", &escaped(title)).replace("@DATA@", &data))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_can_not_break_out_of_its_page() {
        let config = json!({"title": "</title><script>alert(1)</script>", "columns": [{"key": "</script><b>"}]});
        for template in NAMES {
            let page = page(template, &config).expect("a page");
            assert_eq!(page.matches("</script>").count(), 2, "{template}: those of the page itself");
            assert!(page.contains("<title>&lt;/title&gt;") && !page.contains("alert(1)</script>"), "{template}");
            assert!(!page.contains("http://") && !page.contains("https://"), "{template} loads something");
        }
        assert_eq!(page("pie-chart", &config), None);
    }
}
