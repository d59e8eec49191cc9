//! A schema that is not loaded is the same error on every engine: one kind where a session is opened,
//! and one code where a session needs the schema later. Oracle's case runs over its scripted database.

use petal_engine::{Batch, EngineError, Outcomes};
use petal_workload::op::Operation;
use petal_workload::seat::Seat;

use crate::engine_postgres::{SEAT, load, open, select, unlimited};
use crate::server_postgres::{Server, is_there};

/// Loads schema 1 of three engines and asks each for schema 9.
#[test]
fn a_schema_that_is_not_loaded_has_one_error_kind_and_one_code_on_every_engine() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let server = is_there().then(|| Server::start(&["shared_buffers=16MB"]));
    let device = format!("device:{}?log=4M", at("device"));
    let mut urls = vec![format!("sqlite:{}", at("sqlite")), device];
    urls.extend(server.as_ref().map(|server| server.url("lone")));
    for url in &urls {
        load(url, 1);
        let engine = open(url);
        let refused = engine.connect(Seat { schema: 9, ..SEAT }).err();
        assert!(matches!(refused, Some(EngineError::NotLoaded { schema: 9, .. })), "{url}");
        let mut session = engine.connect(SEAT).unwrap();
        let other = Operation { schema: 9, ..select(1, 4) };
        let mut done = Outcomes::default();
        let lost = session
            .execute(Batch::new(&[select(1, 4), other], &unlimited(), &mut done))
            .unwrap_err();
        assert_eq!(lost.code, "not-loaded", "{url}: {lost}");
        assert!(lost.message.ends_with("schema 9 is not loaded"), "{url}: {lost}");
    }
}
