//! Whose a client's certificate is, and until when it is good. That somebody trusted signed it was checked by the TLS handshake.
//!
//! Only the two fields that no crate of the tree gives are read by hand: the end of its time, and the common name.

use std::time::SystemTime;

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

/// How long a name may be: it stands in logs and lists.
const LONGEST: usize = 256;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// UTF-8, printable and IA5 strings: all that certificates of our time have.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// A certificate that a client showed, and that was found good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The first URI among its alternative names, else its common name, else its first host name.
    pub name: String,
    /// Until when it is good; nothing for one that says that it has no end.
    pub(crate) until: Option<SystemTime>,
    /// What tells it apart from all others, and from tokens.
    pub(crate) digest: [u8; 32],
}

impl ClientCertificate {
    /// Reads one; `None` where it names nobody.
    pub fn read(der: &[u8]) -> Option<Self> {
        let fields = CertificateFields::read(der)?;
        let der = CertificateDer::from(der);
        let names = EndEntityCert::try_from(&der).ok()?;
        let name = names.valid_uri_names().next().or(fields.common_name).or_else(|| names.valid_dns_names().next())?;
        if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
            return None;
        }
        let mut hash = Context::new(&SHA256);
        // No token is this: it begins with a character that no header holds.
        hash.update(b"\0certificate");
        hash.update(&der);
        let digest = hash.finish().as_ref().try_into().ok()?;
        Some(Self { name: name.to_owned(), until: fields.until, digest })
    }
}

struct CertificateFields<'d> {
    until: Option<SystemTime>,
    common_name: Option<&'d str>,
}

impl<'d> CertificateFields<'d> {
    fn read(der: &'d [u8]) -> Option<Self> {
        let certificate = content(der, SEQUENCE)?.0;
        let mut rest = content(certificate, SEQUENCE)?.0;
        // The version is left out by certificates of version 1.
        if rest.first() == Some(&VERSION) {
            rest = element(rest)?.2;
        }
        // The serial number, the algorithm, and who signed it.
        for _ in 0..3 {
            rest = element(rest)?.2;
        }
        let (validity, rest) = content(rest, SEQUENCE)?;
        let (_, _, end) = element(validity)?;
        let (tag, end, _) = element(end)?;
        let subject = content(rest, SEQUENCE)?.0;
        Some(Self { until: moment(tag, end).map(SystemTime::from), common_name: common_name(subject) })
    }
}

/// The last one: names go from the general to the particular.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    let mut found = None;
    while let Some((mut set, rest)) = content(subject, SET) {
        while let Some((pair, others)) = content(set, SEQUENCE) {
            let (id, value) = content(pair, OBJECT_ID)?;
            let (tag, text, _) = element(value)?;
            if id == COMMON_NAME && TEXTS.contains(&tag) {
                found = std::str::from_utf8(text).ok();
            }
            set = others;
        }
        subject = rest;
    }
    found
}

fn moment(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let (year, rest) = match tag {
        // RFC 5280: years from 50 on are of the last century.
        UTC_TIME if text.get(..2)? < "50" => (format!("20{}", text.get(..2)?), text.get(2..)?),
        UTC_TIME => (format!("19{}", text.get(..2)?), text.get(2..)?),
        GENERALIZED_TIME => (text.get(..4)?.to_owned(), text.get(4..)?),
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2);
    let (month, day, hour, minute, second) = (part(0)?, part(2)?, part(4)?, part(6)?, part(8)?);
    // The end of all times, which some write, is later than any that a clock can show.
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z").parse().ok()
}

/// The content of the element at the beginning, if it is of this kind, and what follows.
fn content(der: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    element(der).filter(|(tag, ..)| *tag == kind).map(|(_, content, rest)| (content, rest))
}

/// The element at the beginning: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // At most three: with more digits the length is beyond 16 MiB, and no certificate is. 0x80, which has no
        // length, is not DER.
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_read_as_certificates_write_them() {
        let read = |tag, text: &str| moment(tag, text.as_bytes()).map(|moment| moment.to_string());
        assert_eq!(read(UTC_TIME, "491231235959Z").as_deref(), Some("2049-12-31T23:59:59Z"));
        assert_eq!(read(UTC_TIME, "500101000000Z").as_deref(), Some("1950-01-01T00:00:00Z"));
        assert_eq!(read(GENERALIZED_TIME, "20500101000000Z").as_deref(), Some("2050-01-01T00:00:00Z"));
        assert_eq!(read(GENERALIZED_TIME, "99991231235959Z"), None, "no end");
        assert_eq!(read(UTC_TIME, "49é"), None);
    }

    #[test]
    fn the_most_particular_common_name_counts() {
        let pair = |id: &[u8], tag: u8, text: &str| {
            let short = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap_or(0)], content].concat();
            short(SET, &short(SEQUENCE, &[short(OBJECT_ID, id), short(tag, text.as_bytes())].concat()))
        };
        let unit = &[0x55, 0x04, 0x0b];
        let subject =
            [pair(COMMON_NAME, 0x13, "people"), pair(COMMON_NAME, 0x0c, "ada"), pair(unit, 0x0c, "x")].concat();
        assert_eq!(common_name(&subject), Some("ada"));
        assert_eq!(common_name(&pair(unit, 0x0c, "x")), None);
    }

    proptest! {
        /// Whatever somebody shows, it is read or not, and nothing else happens.
        #[test]
        fn anything_can_be_shown(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(ClientCertificate::read(&bytes), None);
        }
    }
}
