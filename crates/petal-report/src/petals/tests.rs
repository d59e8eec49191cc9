use super::*;
use petal_judge::petals::{AfterPeak, BeyondKnee, Noise};

#[test]
fn each_line_has_its_look() {
    let looks = look::looks(&fixture::petals().lines);
    assert!(looks.iter().all(|look| look.dash.is_empty()));
    assert!(looks.windows(2).all(|pair| pair[0].color != pair[1].color));
    assert!(looks.windows(2).all(|pair| pair[0].marker != pair[1].marker));
}

#[test]
fn in_an_overlay_the_target_has_the_colour_and_update_pct_the_dash() {
    let looks = look::looks(&fixture::overlay().lines);
    let reported: Vec<(Color, &str)> = looks.iter().map(|look| (look.color, look.dash)).collect();
    let (old, new) = (Color::Series(0), Color::Series(1));
    assert_eq!(reported, [(old, ""), (old, "8 4"), (new, ""), (new, "8 4")]);
}

#[test]
fn a_file_of_its_own_has_titles_and_no_script() {
    for what in ALL {
        let drawn = svg(&fixture::petals(), what);
        assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>"));
        assert!(drawn.contains("<title>UPDATE_PCT 20"), "{}", what.name);
        assert!(!drawn.contains("script") && !drawn.contains("data-row"));
        assert!(drawn.len() < 80_000, "{} bytes", drawn.len());
    }
}

#[test]
fn every_point_can_be_pointed_at_and_read_in_the_table() {
    let petals = fixture::petals();
    let shown = figure(&petals, &PIOPS);
    assert_eq!(shown.values.rows().len(), 32);
    for variant in &shown.variants {
        for row in 0..32 {
            assert_eq!(variant.svg.matches(&format!("data-row=\"{row}\"")).count(), 1);
        }
    }
    assert_eq!(shown.values.texts(6)[..3], ["UPDATE_PCT 0", "64", "78,520"]);
    assert_eq!(shown.values.texts(6)[7], "peak");
}

#[test]
fn an_unknown_figure_is_a_gap_and_never_zero() {
    let mut petals = fixture::petals();
    petals.lines.truncate(1);
    petals.lines[0].points[3].read_us = None;
    let shown = figure(&petals, &PIOPS);
    assert_eq!(shown.values.texts(3)[4], "-");
    assert!(!shown.variants[0].svg.contains("data-row=\"3\""));
    let strokes = shown.variants[0].svg.matches("stroke-width=\"2.2\"").count();
    assert_eq!(strokes, 2, "the line is broken where a point is unknown");
}

#[test]
fn a_predicted_line_is_dotted_and_a_refused_one_is_not_drawn() {
    let mut petals = fixture::petals();
    let dotted = |petals: &Petals| {
        let shown = figure(petals, &PIOPS);
        let is_noted = shown.note.contains("Dotted: each cell as predicted");
        let lines = shown.variants[0].svg.matches("stroke-dasharray=\"1 5\"").count();
        (lines, is_noted)
    };
    assert_eq!(dotted(&petals), (petals.lines.len(), true));
    // Three cells are too few, and the second line is rough.
    petals.lines.truncate(2);
    petals.lines[0].points.truncate(3);
    for (at, point) in petals.lines[1].points.iter_mut().enumerate() {
        point.piops = Estimate::of(vec![if at % 2 == 0 { 100.0 } else { 9000.0 }]);
    }
    assert_eq!(dotted(&petals), (0, false));
}

#[test]
fn another_active_data_set_is_not_joined() {
    let mut petals = fixture::petals();
    petals.lines.truncate(1);
    petals.lines[0].points[6].active_bytes = Some(1);
    petals.lines[0].points[7].active_bytes = Some(1);
    let shown = figure(&petals, &PIOPS);
    assert_eq!(shown.variants[0].svg.matches("stroke-width=\"2.2\"").count(), 2);
}

#[test]
fn the_summary_of_a_line_has_its_changes_as_figures_and_an_objective_is_marked() {
    let mut petals = fixture::petals();
    let line = &mut petals.lines[0];
    line.bend_back = None;
    line.after_peak = None;
    line.limit.as_mut().unwrap().cause = "storage".into();
    line.within_objective = Some(4);
    line.saturated_from = None;
    assert_eq!(summary(line)[6].text, "-");
    assert_eq!(summary(line)[8].text, "-");
    assert_eq!(summary(line)[9].text, "not measured: the peak is the last point");
    line.saturated_from = Some(5);
    line.beyond_knee = Some(BeyondKnee { from: 5, piops_change: 0.58, read_us_change: 4.2 });
    line.after_peak = Some(AfterPeak { at: 7, lower_by: 0.08, noise: Noise::Within });
    assert_eq!(figure(&petals, &PIOPS).values.texts(5)[7], "saturated from here");
    let shown = summary(&petals.lines[0]).map(|cell| cell.text);
    assert!(shown[6].starts_with("32 sessions: "));
    assert_eq!(shown[8], "PIOPS +58 %, latency +420 %");
    assert_eq!(shown[9], "8.0 % lower at 128 sessions, within the noise of the repeats");
    assert_eq!((shown[10].as_str(), shown.len()), ("storage", SUMMARY.split('|').count()));
    assert_eq!(figure(&petals, &PIOPS).values.texts(4)[7], "within the objective");
}

#[test]
fn a_wild_interval_leaves_the_frame_and_not_the_points() {
    let mut petals = fixture::petals();
    petals.lines[0].points[2].piops.as_mut().unwrap().half_width = Some(1e9);
    let drawn = svg(&petals, &PIOPS);
    assert!(drawn.contains(">80,000<") && drawn.contains(">1,000<"));
    assert!(!drawn.contains(",000,000<"));
}

#[test]
fn nothing_measured_is_still_a_chart() {
    assert!(svg(&Petals::default(), &PIOPS).ends_with("</svg>"));
    assert!(!can_draw(&Petals::default(), &PIOPS));
}
