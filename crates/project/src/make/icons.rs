//! Pictures: local files become data URIs, which a client can show without reaching the machine.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::EntryOrigin;
use crate::folder::{inside, read};
use crate::problem::{ProjectFault, ProjectProblem};

/// The longest picture that is put into a list.
const LONGEST: usize = 256 << 10;
/// How many an entry may have.
const MOST: usize = 16;

/// The icons of an entry; those that can not be shown are left out and reported.
pub(crate) fn icons(origin: &EntryOrigin<'_>, problems: &mut Vec<ProjectProblem>) -> Option<Value> {
    let mut shown = Vec::new();
    for mut icon in origin.facts.array("icons", problems)?.into_iter().take(MOST) {
        let Some(src) = icon.get("src").and_then(Value::as_str).map(str::to_owned) else {
            let field = "icons[].src".to_owned();
            problems.push(origin.facts.problem(Some("icons"), ProjectFault::Field { field, wanted: "a string" }));
            continue;
        };
        // Remote pictures pass as they are; the client decides whether it loads them.
        if ["data:", "http://", "https://"].iter().any(|scheme| src.starts_with(scheme)) {
            shown.push(icon);
            continue;
        }
        match local(origin, &src) {
            Ok((uri, mime_type)) => {
                icon["src"] = uri.into();
                if icon.get("mimeType").is_none_or(Value::is_null) {
                    icon["mimeType"] = mime_type.into();
                }
                shown.push(icon);
            }
            Err(reason) => {
                problems.push(origin.facts.problem(Some(&src), ProjectFault::Icon { src: src.clone(), reason }))
            }
        }
    }
    (!shown.is_empty()).then_some(shown.into())
}

fn local(origin: &EntryOrigin<'_>, src: &str) -> Result<(String, &'static str), String> {
    let path = inside(origin.root, origin.base, src.strip_prefix("file://").unwrap_or(src))
        .map_err(|fault| format!("can not be used: {fault}"))?;
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    let mime_type = match extension.as_str() {
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        _ => return Err("is no kind of picture that is known by its name".to_owned()),
    };
    let bytes = read(&path, LONGEST).map_err(|fault| format!("can not be used: {fault}"))?;
    Ok((format!("data:{mime_type};base64,{}", STANDARD.encode(bytes)), mime_type))
}
