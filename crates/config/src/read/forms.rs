//! Texts that must have a form: URLs, and the names and values of headers and variables.

use super::TableSection;
use crate::error::ConfigFault;

/// A string that has to look like something.
pub(crate) fn checked(
    section: &mut TableSection<'_, '_>,
    key: &'static str,
    looks: fn(&str) -> bool,
    fault: fn() -> ConfigFault,
) -> Option<String> {
    let text = section.text(key)?;
    if looks(&text) {
        return Some(text);
    }
    section.fault(key, fault());
    None
}

/// An `http://` or `https://` URL with a host.
pub(crate) fn http_url(section: &mut TableSection<'_, '_>, key: &'static str) -> Option<String> {
    url(section, key, &["http://", "https://"])
}

/// A URL that begins with one of `schemes` and has a host.
pub(crate) fn url(
    section: &mut TableSection<'_, '_>,
    key: &'static str,
    schemes: &'static [&'static str],
) -> Option<String> {
    let url = section.text(key)?;
    let rest = schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']));
    let is_clean = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    // With an unresolved reference in it, a URL can not be judged.
    if (!has_host || !is_clean) && !section.reading.lenient.get() {
        section.fault(key, ConfigFault::BadUrl { schemes });
        return None;
    }
    Some(url)
}

pub(crate) fn variable_objection(name: &str, _: &str) -> Option<ConfigFault> {
    (name.is_empty() || name.contains(['=', '\0'])).then_some(ConfigFault::BadVariableName)
}

pub(crate) fn header_objection(name: &str, value: &str) -> Option<ConfigFault> {
    // The characters of a token in RFC 9110, section 5.6.2.
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some(ConfigFault::BadHeaderName);
    }
    value.contains(|c: char| c.is_control() && c != '\t').then_some(ConfigFault::BadHeaderValue)
}
