//! PostgreSQL over TLS: how much of a certificate is verified, and what is said when it breaks.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use petal_engine::{Batch, Outcomes};
use petal_settings::Settings;
use petal_settings::url::TargetUrl;

use crate::certificates::certificates;
use crate::engine_postgres::{SEAT, load, open, select, unlimited};
use crate::proxy::Proxy;
use crate::server_postgres::{Server, is_there};
use crate::support::until;

/// The server speaks TLS from now on, with this certificate.
fn encrypt(server: &Server, folder: &Path, certificate: &str) {
    let mut client = server.client("postgres");
    for (kind, setting) in [("key", "ssl_key_file"), ("crt", "ssl_cert_file")] {
        let name = format!("{certificate}.{kind}");
        server.secret_file(&name, &fs::read_to_string(folder.join(&name)).unwrap());
        let sql = format!("ALTER SYSTEM SET {setting} = '../{name}'");
        client.batch_execute(&sql).unwrap();
    }
    client.batch_execute("ALTER SYSTEM SET ssl = on").unwrap();
    reload(server);
}

/// New connections have what ALTER SYSTEM said.
fn reload(server: &Server) {
    let read_at = || -> SystemTime {
        server.client("postgres").query_one("SELECT pg_conf_load_time()", &[]).unwrap().get(0)
    };
    let before = read_at();
    server.client("postgres").batch_execute("SELECT pg_reload_conf()").unwrap();
    until("a reload", || read_at() > before);
}

#[test]
fn tls_verifies_as_much_as_sslmode_says() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("secure");
    load(&url, 1);
    encrypt(&server, folder.path(), "server");
    let ca = folder.path().join("ca.crt").display().to_string();
    let try_it = |host: &str, options: &str| {
        let url = format!("postgres://petal@{host}:{}/secure?{options}", server.port);
        open(&url).loaded().map_err(|error| error.to_string())
    };
    let trusting = format!("sslrootcert={ca}");
    for (host, options) in [
        ("127.0.0.1", "sslmode=disable".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{trusting}")),
        ("localhost", format!("sslmode=verify-full&{trusting}")),
    ] {
        let loaded = try_it(host, &options);
        assert_eq!(loaded.unwrap().len(), 1, "{options}");
    }
    for (host, options) in [
        ("127.0.0.1", format!("sslmode=verify-full&{trusting}")),
        ("localhost", "sslmode=verify-full&sslrootcert=system".to_owned()),
        ("localhost", "sslrootcert=system".to_owned()),
    ] {
        let error = try_it(host, &options).unwrap_err();
        assert!(error.contains("certificate") && error.contains("sslrootcert"), "{error}");
    }
    // Public authorities have given each stranger a certificate, for some name.
    for mode in ["prefer", "require", "verify-ca"] {
        let url = format!("postgres://petal@localhost/secure?sslmode={mode}&sslrootcert=system");
        let db = TargetUrl::parse(&url).unwrap();
        let refused = petal::engines::open(&Settings { db, ..Settings::default() }).err().unwrap();
        assert!(refused.to_string().contains("use sslmode=verify-full"), "{mode}: {refused}");
    }
    // The server's own certificate is the trusted one, and its own authority, as `openssl req -x509`
    // makes it.
    encrypt(&server, folder.path(), "self");
    let trusting = |name: &str| {
        let file = folder.path().join(name).display().to_string();
        move |mode: &str| format!("sslmode={mode}&sslrootcert={file}")
    };
    let own = trusting("self.crt");
    assert_eq!(try_it("127.0.0.1", &own("verify-ca")).unwrap().len(), 1);
    assert_eq!(try_it("localhost", &own("verify-full")).unwrap().len(), 1);
    for (host, options) in
        [("127.0.0.1", own("verify-full")), ("localhost", trusting("ca.crt")("verify-ca"))]
    {
        let error = try_it(host, &options).unwrap_err();
        assert!(error.contains("certificate"), "{options}: {error}");
    }
    // A certificate without extensions, as PostgreSQL's manual makes one, is of version 1.
    encrypt(&server, folder.path(), "old");
    for options in ["sslmode=prefer", "sslmode=require"] {
        assert_eq!(try_it("127.0.0.1", options).unwrap().len(), 1, "{options}");
    }
    // Without TLS at the server, `require` does not go on in the clear.
    server.client("postgres").batch_execute("ALTER SYSTEM SET ssl = off").unwrap();
    reload(&server);
    let error = try_it("127.0.0.1", "sslmode=require").unwrap_err();
    assert!(error.contains("TLS"), "{error}");
    let error = try_it("127.0.0.1", "sslmode=prefer").unwrap_err();
    assert!(error.contains("the first login had TLS"), "{error}");
    try_it("localhost", "sslmode=prefer").unwrap();
}

#[test]
fn channel_binding_is_required_where_it_is_asked_for() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB", "password_encryption=scram-sha-256"]);
    load(&server.url("bound"), 1);
    let mut client = server.client("bound");
    let file: String = client
        .query_one("SELECT setting FROM pg_settings WHERE name = 'hba_file'", &[])
        .unwrap()
        .get(0);
    client
        .batch_execute(&format!(
            "CREATE ROLE bound SUPERUSER LOGIN PASSWORD 'tight'; \
             COPY (VALUES ('host all bound all scram-sha-256'), ('local all all trust'), \
             ('host all all all trust')) TO '{file}'"
        ))
        .unwrap();
    encrypt(&server, folder.path(), "server");
    let url = |user: &str, options: &str| {
        format!("postgres://{user}@127.0.0.1:{}/bound?{options}", server.port)
    };
    for options in ["sslmode=require&channel_binding=require", "channel_binding=prefer"] {
        assert_eq!(open(&url("bound:tight", options)).loaded().unwrap().len(), 1, "{options}");
    }
    // Nothing to bind to, or nobody who asks for a password.
    for (user, options) in [("bound:tight", "sslmode=disable"), ("petal", "sslmode=require")] {
        let url = url(user, &format!("{options}&channel_binding=require"));
        let reported = open(&url).loaded().unwrap_err().to_string();
        assert!(reported.contains("channel_binding"), "{reported}");
    }
}

#[test]
fn a_server_that_dies_under_tls_is_said_to_have_ended_the_connection() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let server = Server::start(&["shared_buffers=16MB"]);
    let url = server.url("dying");
    load(&url, 1);
    encrypt(&server, folder.path(), "server");
    let proxy = Proxy::to(server.port);
    let url = format!("postgres://petal@127.0.0.1:{}/dying?sslmode=require", proxy.port);
    let mut session = open(&url).connect(SEAT).unwrap();
    proxy.cut();
    let error = session
        .execute(Batch::new(&[select(1, 8)], &unlimited(), &mut Outcomes::default()))
        .unwrap_err();
    assert_eq!(error.code, "connection");
    assert!(error.message.contains("ended the connection"), "{}", error.message);
    assert!(!error.message.contains("rustls"), "{}", error.message);
}
