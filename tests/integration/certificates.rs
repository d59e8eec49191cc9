//! Certificates of a test's own, made by openssl. No test of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

/// An authority (`ca`); certificates for `localhost` of it (`server`), of nobody (`self`), of version 1
/// (`old`) and without alternative names (`common`); and one for a client (`client`).
pub fn certificates(folder: &Path) {
    let openssl = |args: &str| {
        let made = Command::new("openssl")
            .args(args.split_whitespace())
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    fs::write(folder.join("leaf.conf"), "subjectAltName=DNS:localhost\n").unwrap();
    openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=ca");
    openssl("req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost");
    openssl(
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt \
         -days 2 -extfile leaf.conf",
    );
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -keyout self.key -out self.crt -days 2 \
         -subj /CN=localhost -addext subjectAltName=DNS:localhost",
    );
    openssl("req -newkey rsa:2048 -nodes -keyout old.key -out old.csr -subj /CN=localhost");
    openssl("x509 -req -in old.csr -CA ca.crt -CAkey ca.key -out old.crt -days 2");
    fs::write(folder.join("common.conf"), "basicConstraints=CA:FALSE\n").unwrap();
    openssl("req -newkey rsa:2048 -nodes -keyout common.key -out common.csr -subj /CN=localhost");
    openssl(
        "x509 -req -in common.csr -CA ca.crt -CAkey ca.key -out common.crt -days 2 \
         -extfile common.conf",
    );
    openssl("req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=petal");
    openssl(
        "x509 -req -in client.csr -CA ca.crt -CAkey ca.key -out client.crt -days 2 \
         -extfile leaf.conf",
    );
}
