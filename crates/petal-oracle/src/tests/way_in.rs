//! Tests of connecting: real failures with the real driver.

use super::*;

#[test]
fn a_log_on_that_fails_is_reported_with_its_code() {
    let refused = |code, message: &str| {
        let scripted = loaded().fails("CONNECT petal", code, message);
        let error = engine(&scripted, &settings()).loaded().unwrap_err();
        assert!(matches!(error, EngineError::Environment(_)));
        error.to_string()
    };
    insta::assert_snapshot!(refused(28000, "The account is locked."), @"db1:1521/svc: connecting: ORA-28000: The account is locked.; the account is locked: ALTER USER ... ACCOUNT UNLOCK");
    insta::assert_snapshot!(refused(1017, "invalid username/password; logon denied"), @"db1:1521/svc: connecting: ORA-01017: invalid username/password; logon denied; check user and password (ORACLE_PASSWORD, SYSDBA_PASSWD)");
}

/// Starts a peer for the real driver, which calls `serve` with each connection.
fn peer(serve: fn(std::net::TcpStream)) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    port
}

fn really(url: &str) -> String {
    let settings = Settings { db: TargetUrl::parse(url).unwrap(), ..settings() };
    let error = Oracle::open(&settings).unwrap().loaded().unwrap_err();
    assert!(matches!(error, EngineError::Environment(_)), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains("s3cret"), "{text}");
    text
}

#[test]
fn a_closed_port_is_reported_at_once() {
    let text = really("oracle://u:s3cret@127.0.0.1:1/svc");
    insta::assert_snapshot!(text, @"127.0.0.1:1/svc: connecting: stream operation failed: Connection refused (os error 111); check host, port and that a listener runs there (lsnrctl status)");
}

#[test]
fn a_listener_that_hangs_is_left_after_the_time_limit() {
    let port = peer(|mut stream| {
        // Reads everything and answers nothing.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let text = really(&format!("oracle://u:s3cret@127.0.0.1:{port}/svc?connect_timeout=1"));
    assert!(text.contains("no answer within 1 s"), "{text}");
}

#[test]
fn a_peer_that_leaves_at_once_is_no_database() {
    let port = peer(drop);
    let text = really(&format!("oracle://u:s3cret@127.0.0.1:{port}/svc?connect_timeout=600"));
    assert!(text.starts_with(&format!("127.0.0.1:{port}/svc: connecting: ")), "{text}");
    assert!(!text.contains("no answer"), "shown by what it said: {text}");
}

#[test]
fn tls_that_is_refused_is_reported() {
    // A TLS alert: handshake failure.
    let port = peer(|mut stream| {
        let mut hello = [0u8; 512];
        let _ = stream.read(&mut hello);
        let _ = stream.write_all(&[21, 3, 3, 0, 2, 2, 40]);
    });
    let url = format!("oracle://u:s3cret@127.0.0.1:{port}/svc?protocol=tcps&connect_timeout=600");
    let text = really(&url);
    assert!(text.contains("protocol=tcps") && text.to_lowercase().contains("handshake"), "{text}");
}
