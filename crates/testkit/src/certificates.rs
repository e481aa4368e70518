//! Certificates for tests, made by openssl.

use std::path::PathBuf;
use std::process::Command;

use crate::tempdir::TempDir;

/// Somebody who signs certificates, in a folder with all of them.
pub struct CertificateAuthority(TempDir);

impl CertificateAuthority {
    /// A new one; its own certificate is `ca.pem`.
    pub fn new() -> Self {
        let own = Self(TempDir::new());
        own.make("ca", "authority", true, &[]);
        own
    }

    /// A certificate of this name, for this machine, in `FILE.pem`, and its key in `FILE.key`.
    pub fn issue(&self, file: &str, name: &str) {
        self.make(file, name, false, &["-CA", "ca.pem", "-CAkey", "ca.key"]);
    }

    fn make(&self, file: &str, name: &str, signs: bool, by: &[&str]) {
        let signs = if signs { "TRUE" } else { "FALSE" };
        let request = format!(
            "[req]\ndistinguished_name = dn\nprompt = no\nx509_extensions = ext\n[dn]\nCN = {name}\n[ext]\n\
             basicConstraints = critical, CA:{signs}\nsubjectAltName = DNS:localhost, IP:127.0.0.1\n"
        );
        let request = self.0.write(&format!("{file}.cnf"), request);
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]);
        openssl
            .args(["-keyout", &format!("{file}.key"), "-out", &format!("{file}.pem"), "-config"])
            .arg(request)
            .args(by);
        let made =
            openssl.current_dir(self.0.path()).output().expect("these tests need openssl: apt-get install openssl");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// The path of a file in its folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}
