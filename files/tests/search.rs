//! `search_files`: what it finds, in which order, and what it says of the rest.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; not each uses all that they share"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Dice, call, paths, roots, stream, write};
use serde_json::{Value, json};
use tool_files::search::SearchFiles;
use tool_files::{FileError, Operation, Root, Roots, Stop, Target};
use tool_protocol::Fault;

fn search(roots: &Roots, input: Value) -> Value {
    call::<SearchFiles>(roots, input).unwrap()
}

fn fault(roots: &Roots, input: Value) -> (Fault, String) {
    let error = call::<SearchFiles>(roots, input).unwrap_err();
    (error.fault(), error.to_string())
}

#[test]
fn content_comes_in_the_order_of_paths_and_lines() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at.join("b.txt"), "one\ntwo needle\nthree\nneedle\n");
    write(at.join("a/z.txt"), "needle");
    write(at.join("a.txt"), "x needle needle\r\n");
    write(at.join(".hidden"), "needle\n");
    write(at.join("a/.git/config"), "needle\n");
    let roots = roots(at);
    let output = search(&roots, json!({"pattern": "ne+dle$"}));
    let lines: Vec<_> = output["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            (
                line["path"].as_str().unwrap(),
                line["line"].as_u64().unwrap(),
                line["column"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [("a/z.txt", 1, 1), ("a.txt", 1, 10), ("b.txt", 2, 5), ("b.txt", 4, 1)];
    assert_eq!(lines, expected);
    assert_eq!(output["results"][1]["text"], json!("x needle needle"));
    assert_eq!(output["total"], json!(4));
    assert_eq!(output["files_searched"], json!(3));
    assert_eq!(output["truncated"], json!(false));
    let hidden = search(&roots, json!({"pattern": "needle", "hidden": true, "type": "literal"}));
    assert_eq!(hidden["results"][0]["path"], json!(".hidden"));
    assert_eq!(hidden["total"], json!(5));
    let all = search(&roots, json!({"pattern": "needle", "hidden": true, "gitignore": false}));
    assert_eq!(all["total"], json!(6));
    let upper = json!({"pattern": "NEEDLE", "case_sensitive": false, "path": "b.txt"});
    assert_eq!(search(&roots, upper)["total"], json!(2));
    let literal = search(&roots, json!({"pattern": "ne+dle", "type": "literal"}));
    assert_eq!(literal["results"], json!([]));
}

#[test]
fn lines_around_a_match_are_given_with_each() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path().join("f"), "1\n2\nhit 3\n4\nhit 5\n6\n7\n8\nhit 9\n");
    let roots = roots(directory.path());
    let output = search(&roots, json!({"pattern": "hit", "before": 2, "after": 2}));
    let around: Vec<_> = output["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| json!([line["before"], line["after"]]))
        .collect();
    assert_eq!(
        around,
        [
            json!([["1", "2"], ["4", "hit 5"]]),
            json!([["hit 3", "4"], ["6", "7"]]),
            json!([["7", "8"], null]),
        ]
    );
    // The last one that is given has its lines too, though there are more.
    let output = search(&roots, json!({"pattern": "hit", "context": 2, "max_results": 1}));
    assert_eq!(output["results"][0]["after"], json!(["4", "hit 5"]));
    assert_eq!(output["truncated"], json!(true));
    let output = search(&roots, json!({"pattern": "hit", "before": 1}));
    assert_eq!(output["results"][2]["before"], json!(["8"]));
    assert_eq!(output["results"][0]["after"], Value::Null);
}

#[test]
fn names_are_found_by_glob_regex_and_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    for name in
        ["src/main.rs", "src/deep/x.rs", "README.md", "readme.MD", "src/README.md", "target/x.rs"]
    {
        write(at.join(name), "1234");
    }
    write(at.join(".gitignore"), "/target\n");
    let roots = roots(at);
    let named = |input: Value| {
        let mut whole = json!({"by": "name"});
        whole.as_object_mut().unwrap().extend(input.as_object().unwrap().clone());
        let output = search(&roots, whole);
        let found = paths(&output["results"]);
        for result in output["results"].as_array().unwrap() {
            assert_eq!(result["size"], json!(4));
            assert!(result["mtime"].as_str().unwrap().ends_with('Z'));
        }
        found
    };
    assert_eq!(named(json!({"pattern": "*.rs"})), ["src/deep/x.rs", "src/main.rs"]);
    assert_eq!(named(json!({"pattern": "src/*.rs"})), ["src/main.rs"]);
    assert_eq!(named(json!({"pattern": "/README.md"})), ["README.md"]);
    assert_eq!(named(json!({"pattern": "*.{rs,md}", "exclude": ["src/"]})), ["README.md"]);
    assert_eq!(named(json!({"pattern": "*", "include": ["**/deep/**"]})), ["src/deep/x.rs"]);
    assert_eq!(
        named(json!({"pattern": "README.md", "type": "exact"})),
        ["README.md", "src/README.md"]
    );
    assert_eq!(named(json!({"pattern": "src/README.md", "type": "exact"})), ["src/README.md"]);
    let any = json!({"pattern": "readme.md", "type": "exact", "case_sensitive": false});
    assert_eq!(named(any), ["README.md", "readme.MD", "src/README.md"]);
    assert_eq!(named(json!({"pattern": "^src/.*x", "type": "regex"})), ["src/deep/x.rs"]);
    assert_eq!(
        named(json!({"pattern": "x.rs", "gitignore": false, "path": "target"})),
        ["target/x.rs"]
    );
    assert_eq!(named(json!({"pattern": "*.rs", "path": "src/main.rs"})), ["src/main.rs"]);
    // Types that only names have say what is searched.
    let output = search(&roots, json!({"pattern": "main.rs", "type": "exact"}));
    assert_eq!(paths(&output["results"]), ["src/main.rs"]);
}

#[test]
fn truncated_says_whether_there_is_more() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let name = format!("{}/{}/f{number:02}", number % 3, number % 5);
        write(directory.path().join(name), "hit\nhit\nmiss\n");
    }
    let roots = roots(directory.path());
    for (by, count) in [("name", 40), ("content", 80)] {
        let pattern = if by == "name" { "f*" } else { "hit" };
        let all = search(&roots, json!({"pattern": pattern, "by": by, "max_results": 1000}));
        let all = all["results"].as_array().unwrap().clone();
        assert_eq!(all.len(), count);
        for most in 1..=count + 1 {
            let input = json!({"pattern": pattern, "by": by, "max_results": most});
            let output = search(&roots, input.clone());
            assert_eq!(output["truncated"], json!(most < count), "{by}, {most}");
            // The same ones at every call, whatever the threads do.
            assert_eq!(output["results"].as_array().unwrap()[..], all[..most.min(count)]);
            let total = usize::try_from(output["total"].as_u64().unwrap()).unwrap();
            assert!(if most < count { total > most && total <= count } else { total == count });
            let (output, pieces) = stream::<SearchFiles>(&roots, input);
            assert_eq!(output["truncated"], json!(most < count), "streaming {by}, {most}");
            assert_eq!(pieces.len(), most.min(count));
            let results = output["results"].as_array().unwrap();
            assert_eq!(results.len(), pieces.len());
            assert!(results.iter().all(|result| pieces.contains(result) && all.contains(result)));
        }
    }
}

#[test]
fn every_thread_finds_what_one_would() {
    let directory = tempfile::tempdir().unwrap();
    let mut dice = Dice(7);
    let mut expected = Vec::new();
    for number in 0..3000 {
        let name = format!("d{}/e{}/f{number}", dice.below(3), dice.below(40));
        let hit = dice.below(10) == 0;
        write(directory.path().join(&name), if hit { "a\nthe hit\n" } else { "a\nb\n" });
        if hit {
            expected.push(name);
        }
    }
    // One large directory, so that its files are shared.
    for number in 0..1500 {
        let name = format!("flat/f{number:04}");
        write(directory.path().join(&name), "hit");
        expected.push(name);
    }
    let output = search(&roots(directory.path()), json!({"pattern": "hit", "max_results": 10_000}));
    let mut found = paths(&output["results"]);
    let in_order = found
        .windows(2)
        .all(|pair| tool_files::shown::order(pair[0].as_bytes(), pair[1].as_bytes()).is_lt());
    assert!(in_order);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(output["files_searched"], json!(4500));
}

#[test]
fn a_pattern_that_is_wrong_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let roots = roots(directory.path());
    let (code, message) = fault(&roots, json!({"pattern": "ab(c"}));
    assert_eq!(code, Fault::InvalidPattern);
    assert_eq!(message, "the pattern is wrong at character 3: unclosed group");
    for input in [
        json!({"pattern": "[", "by": "name"}),
        json!({"pattern": "(?=a)"}),
        json!({"pattern": "(a{1000}){1000}"}),
        json!({"pattern": "a\nb"}),
        json!({"pattern": "a\nb", "type": "literal"}),
        json!({"pattern": "a", "include": ["{a"]}),
        json!({"pattern": "a".repeat(20_000)}),
        json!({"pattern": "[a", "by": "name", "type": "regex"}),
    ] {
        let (code, message) = fault(&roots, input.clone());
        assert_eq!(code, Fault::InvalidPattern, "{input}: {message}");
        assert!(!message.contains('\n'), "{message}");
    }
    for input in [
        json!({"pattern": ""}),
        json!({"pattern": "a", "max_results": 0}),
        json!({"pattern": "a", "max_results": 10_001}),
        json!({"pattern": "a", "context": 101}),
        json!({"pattern": "a", "context": 100, "max_results": 10_000}),
        json!({"pattern": "a", "type": "literal", "by": "name"}),
        json!({"pattern": "a", "type": "glob", "by": "content"}),
    ] {
        assert_eq!(fault(&roots, input.clone()).0, Fault::InvalidInput, "{input}");
    }
    assert_eq!(fault(&roots, json!({"pattern": "a", "path": ".."})).0, Fault::PathOutsideWorkspace);
    assert_eq!(fault(&roots, json!({"pattern": "a", "path": "none"})).0, Fault::FileNotFound);
}

#[test]
fn what_is_no_text_is_skipped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at.join("early.bin"), b"\0hit\n");
    write(at.join("late.bin"), [b"hit\n".repeat(1000), b"\0".to_vec()].concat());
    let large = [b"hit\n".repeat(100), b"x\n".repeat(200_000), b"\0".to_vec()].concat();
    write(at.join("large.bin"), large);
    write(
        at.join("utf16"),
        "\u{feff}hit ü\r\nx".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
    );
    write(at.join("bom"), "\u{feff}hit\n");
    write(at.join("latin"), b"hit \xe9\n");
    write(at.join("large"), [b"x\n".repeat(500_000), b"hit\n".to_vec()].concat());
    write(at.join("line"), [vec![b'x'; 500_000], b"hit".to_vec(), vec![b'y'; 500_000]].concat());
    write(at.join("longest"), [vec![b'x'; 20 << 20], b"hit".to_vec()].concat());
    write(at.join("over"), vec![b'x'; 21 << 20]);
    let input =
        json!({"pattern": "hit", "max_results": 10_000, "max_file_bytes": 20 * 1024 * 1024 + 10});
    let output = search(&roots(at), input);
    assert_eq!(paths(&output["results"]), ["bom", "large", "latin", "line", "utf16"]);
    let expected = json!({"unreadable": 0, "binary": 3, "too_large": 2, "ignore_files": 0});
    assert_eq!(output["skipped"], expected);
    let text = |index: usize| &output["results"][index]["text"];
    assert_eq!(*text(0), json!("hit"));
    assert_eq!(output["results"][1]["line"], json!(500_001));
    assert_eq!(*text(2), json!({"b64": "aGl0IOk="}));
    assert_eq!(*text(4), json!("hit ü"));
    let line = &output["results"][3];
    assert_eq!((&line["cut"], &line["column"]), (&json!(true), &json!(500_001)));
    let text = line["text"].as_str().unwrap();
    assert!(
        text.len() < 1010 && text.contains("xhity") && text.starts_with('…') && text.ends_with('…')
    );
}

#[test]
fn a_search_stops_when_it_is_told_and_gives_what_it_has_when_time_is_up() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..300 {
        write(directory.path().join(format!("{}/{number}", number % 10)), "hit\n");
    }
    let roots = roots(directory.path());
    let find = || {
        SearchFiles::find(&roots, serde_json::from_value(json!({"pattern": "hit"})).unwrap())
            .unwrap()
    };
    let stop = Stop::new(None);
    stop.say();
    assert_eq!(find().run(&stop, None).unwrap_err(), FileError::Stopped);
    let output = find().run(&Stop::new(Some(Instant::now())), None).unwrap();
    assert!(output.truncated && output.timed_out && output.results.is_empty());
    // While it runs: whoever takes a result says so.
    let stop = Stop::new(Some(Instant::now() + Duration::from_secs(600)));
    let mut count = 0;
    let mut piece = |_| {
        count += 1;
        stop.say();
    };
    let ended = find().run(&stop, Some(&mut piece));
    match ended {
        Err(error) => assert_eq!(error, FileError::Stopped),
        // All that was wanted had been found before.
        Ok(output) => assert!(output.truncated && output.results.len() == 50),
    }
    assert!(count >= 1);
}

#[test]
fn names_of_the_first_root_are_relative_and_of_others_absolute() {
    let one = tempfile::tempdir().unwrap();
    let two = tempfile::tempdir().unwrap();
    write(one.path().join("real/f"), "hit");
    write(two.path().join("g"), "hit");
    std::os::unix::fs::symlink("real", one.path().join("link")).unwrap();
    let roots = Roots::new(vec![Root::open(one.path()).unwrap(), Root::open(two.path()).unwrap()]);
    let found =
        |path: &str| paths(&search(&roots, json!({"pattern": "hit", "path": path}))["results"]);
    assert_eq!(found("."), ["real/f"]);
    // By its real name, whatever it was called.
    assert_eq!(found("link"), ["real/f"]);
    assert_eq!(found(one.path().join("real").to_str().unwrap()), ["real/f"]);
    assert_eq!(found(two.path().to_str().unwrap()), [two.path().join("g").to_str().unwrap()]);
    let input = serde_json::from_value(json!({"pattern": "hit", "path": "link"})).unwrap();
    let names = SearchFiles::find(&roots, input).unwrap().names();
    let real = one.path().canonicalize().unwrap().join("real");
    assert_eq!(names, [real.to_str().unwrap().as_bytes()]);
}

#[test]
fn an_answer_is_bounded_however_long_lines_and_paths_are() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at.join("lines"), ("\u{1}".repeat(1000) + "\n").repeat(3000));
    let long = "\u{1}".repeat(250);
    let deep = at.join("deep").join(&long).join(&long).join(&long);
    (0..1000).for_each(|number| write(deep.join(number.to_string()), "x"));
    let roots = roots(at);
    for input in [
        json!({"pattern": ".", "path": "lines", "max_results": 3000}),
        json!({"pattern": ".", "path": "lines", "max_results": 240, "context": 100}),
        json!({"pattern": "*", "by": "name", "path": "deep", "max_results": 3000}),
        json!({"pattern": "x", "path": "deep", "max_results": 3000}),
    ] {
        let output = search(&roots, input.clone());
        assert_eq!(output["truncated"], json!(true), "{input}");
        assert!(output.to_string().len() < 5 << 20, "{input}: {}", output.to_string().len());
        assert!(!output["results"].as_array().unwrap().is_empty(), "{input}");
        let (output, pieces) = stream::<SearchFiles>(&roots, input.clone());
        let results = output["results"].as_array().unwrap().len();
        assert_eq!((output["truncated"].clone(), pieces.len()), (json!(true), results), "{input}");
        assert!(output.to_string().len() < 5 << 20, "{input}: {}", output.to_string().len());
    }
}

#[test]
fn globs_are_bounded_together() {
    let directory = tempfile::tempdir().unwrap();
    let globs: Vec<String> =
        (0..100).map(|number| "*?[a-z]".repeat(140) + &number.to_string()).collect();
    let input = json!({"pattern": "x", "exclude": globs});
    assert_eq!(fault(&roots(directory.path()), input).0, Fault::InvalidPattern);
}

#[test]
fn ignore_files_that_would_take_much_memory_do_not_count_and_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    let wild: String = (0..6000).map(|number| format!("*?[a-z]*[!0-9]x*{number}\n")).collect();
    let plain: String =
        (0..6000).map(|number| format!("/build/out-{number}/\n*.{number}\n")).collect();
    write(at.join("wild/.gitignore"), wild + "f\n");
    write(at.join("plain/.gitignore"), plain + "f\n");
    ["wild", "plain"].iter().for_each(|name| write(at.join(name).join("f"), "x"));
    let output = search(&roots(at), json!({"pattern": "x"}));
    assert_eq!(paths(&output["results"]), ["wild/f"]);
    assert_eq!(output["skipped"]["ignore_files"], json!(1));
}
