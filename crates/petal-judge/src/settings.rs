//! Settings of the target that shape its figures, as its engine names them.

use serde_json::json;

use super::judgement::{FindingParts, Judgement, clear_if, info};
use petal_record::Run;

pub(super) fn judge(run: &Run) -> Judgement {
    let updates = run.summary.ops.update > 0;
    let all = run.details.target.notable_settings.iter();
    let notable: Vec<_> = all.filter(|setting| updates || !setting.of_updates).collect();
    clear_if(notable.is_empty())?;
    let effects: Vec<&str> = notable.iter().map(|setting| setting.effect.as_str()).collect();
    let advice: Vec<&str> = notable.iter().map(|setting| setting.advice.as_str()).collect();
    info(effects.join("; "), &advice.join(" ")).with(json!({ "settings": effects }))
}
