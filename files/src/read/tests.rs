//! Reading, in a workspace of its own: what is given, of what, and what is refused.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;
use crate::fixture::Workspace;
use crate::{Root, hash};

fn input(path: &str) -> ReadInput {
    ReadInput { path: path.into(), ..ReadInput::default() }
}

fn read(workspace: &Workspace, input: ReadInput) -> Result<ReadOutput, FileError> {
    workspace.run::<ReadFile>(input)
}

fn lines(path: &str, start: u64, end: Option<u64>) -> ReadInput {
    ReadInput { start_line: Some(start), end_line: end, ..input(path) }
}

#[test]
fn a_file_is_read_with_what_is_known_of_it() {
    let workspace = Workspace::new();
    workspace.put("a.txt", "one\r\ntwo\nthrée");
    let output = read(&workspace, input("a.txt")).unwrap();
    assert_eq!(output.content.unwrap(), "one\r\ntwo\nthrée");
    assert_eq!((output.size, output.lines, output.encoding), (15, Some(3), Encoding::Utf8));
    assert_eq!((output.start_line, output.end_line), (Some(1), Some(3)));
    assert!(!output.truncated && !output.changed);
    assert_eq!(output.sha256.unwrap(), hash::of("one\r\ntwo\nthrée".as_bytes()));
    assert_eq!((output.mtime.len(), output.mtime.ends_with('Z')), (24, true));
    assert_eq!(output.path, "a.txt");
}

#[test]
fn as_json_an_answer_is_what_serde_makes_of_it() {
    let workspace = Workspace::new();
    let binary = [b"text and then ".as_slice(), &[0xff; 40_000]].concat();
    let cut = "é".repeat(20_000).into_bytes();
    let contents: [(&str, Vec<u8>); 10] = [
        ("empty", Vec::new()),
        ("text", b"a \"b\"\tc\\\r\n\x01\x1f\x7f\n\n".to_vec()),
        ("no-line-end", "one\ntwo €".into()),
        ("with \"name\"", "x\n".repeat(30_000).into_bytes()),
        ("only-escapes", b"\x02".repeat(100_000)),
        ("most", vec![b'a'; PIECE]),
        ("more", b"0123456789abcde\n".repeat(PIECE / 16 + 1)),
        ("nul", b"text\0".to_vec()),
        ("late", binary),
        ("cut", cut.get(..cut.len() - 1).unwrap().to_vec()),
    ];
    for (name, content) in contents {
        workspace.put(name, &content);
        let asked = [
            input(name),
            ReadInput { line_numbers: true, ..input(name) },
            ReadInput { start_line: Some(1), ..input(name) },
            ReadInput { end_line: Some(2), ..input(name) },
            ReadInput { start_byte: Some(0), ..input(name) },
            ReadInput { encoding: Some(ReadAs::Base64), ..input(name) },
            ReadInput { encoding: Some(ReadAs::Utf8), ..input(name) },
        ];
        for asked in asked {
            let value = |json: String| serde_json::from_str::<serde_json::Value>(&json).unwrap();
            let ours = workspace.json::<ReadFile>(asked.clone()).map(value);
            let output = read(&workspace, asked.clone());
            let output = output.map(|output| serde_json::to_value(output).unwrap());
            assert_eq!(ours, output, "{asked:?}");
        }
    }
}

#[test]
fn an_empty_file_is_empty_text() {
    let workspace = Workspace::new();
    workspace.put("empty", "");
    let output = read(&workspace, input("empty")).unwrap();
    assert_eq!((output.content.as_deref(), output.lines), (Some(""), Some(0)));
    assert_eq!((output.start_line, output.end_line, output.truncated), (None, None, false));
    assert_eq!(output.sha256.unwrap(), hash::of(b""));
    let error = read(&workspace, lines("empty", 2, None)).unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
}

#[test]
fn a_range_of_lines_is_given_and_one_past_the_end_is_an_error() {
    let workspace = Workspace::new();
    workspace.put("a", "1\n2\n3\n4");
    let ranges = [
        (2, Some(3), "2\n3\n", 3),
        (4, None, "4", 4),
        (1, Some(99), "1\n2\n3\n4", 4),
        (3, Some(3), "3\n", 3),
    ];
    for (start, end, content, last) in ranges {
        let output = read(&workspace, lines("a", start, end)).unwrap();
        assert_eq!(output.content.unwrap(), content);
        assert_eq!((output.start_line, output.end_line), (Some(start), Some(last)));
        assert_eq!((output.lines, output.truncated), (Some(4), false));
    }
    let error = read(&workspace, lines("a", 5, None)).unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
    assert_eq!(error.to_string(), "start_line is past the end: a has 4 lines");
    for (start, end) in [(0, None), (3, Some(2))] {
        let error = read(&workspace, lines("a", start, end)).unwrap_err();
        assert_eq!(error.fault(), Fault::InvalidInput);
    }
    let numbered = ReadInput { line_numbers: true, ..lines("a", 2, Some(3)) };
    let output = read(&workspace, numbered).unwrap();
    assert_eq!(output.content.unwrap(), "     2\t2\n     3\t3\n");
}

#[test]
fn a_large_file_is_given_in_pieces_that_make_it_whole_again() {
    let workspace = Workspace::new();
    let text: String = (0..300_000).map(|number| format!("line {number}\n")).collect();
    workspace.put("large", &text);
    let (mut again, mut next) = (String::new(), input("large"));
    loop {
        let output = read(&workspace, next).unwrap();
        assert!(output.content.as_ref().unwrap().len() <= PIECE);
        again.push_str(&output.content.unwrap());
        assert_eq!(output.lines, Some(300_000));
        if !output.truncated {
            break;
        }
        assert_eq!(output.next_byte, Some(again.len() as u64));
        next = lines("large", output.next_line.unwrap(), None);
    }
    assert!(again == text);
}

#[test]
fn a_line_larger_than_a_piece_is_read_on_by_byte_and_never_cut_in_a_character() {
    let workspace = Workspace::new();
    let text = format!("x{}\nend", "é".repeat(1_500_000));
    workspace.put("huge-line", &text);
    let (mut again, mut next, mut last) = (String::new(), input("huge-line"), None);
    loop {
        let output = read(&workspace, next).unwrap();
        again.push_str(output.content.as_ref().unwrap());
        last = output.end_line.or(last);
        let Some(byte) = output.next_byte else { break };
        assert_eq!(output.next_line.is_some(), again.ends_with('\n'));
        next = ReadInput { start_byte: Some(byte), ..input("huge-line") };
    }
    assert!(again == text);
    assert_eq!(last, Some(2));
    let inside = ReadInput { start_byte: Some(2), ..input("huge-line") };
    assert_eq!(read(&workspace, inside).unwrap_err().fault(), Fault::InvalidInput);
    let past = ReadInput { start_byte: Some(9_000_000), ..input("huge-line") };
    let error = read(&workspace, past).unwrap_err();
    assert_eq!(error.to_string(), "start_byte is past the end: huge-line has 3000005 bytes");
}

#[test]
fn what_is_no_text_is_named_and_never_made_to_look_like_text() {
    let workspace = Workspace::new();
    let utf16: Vec<u8> = "\u{feff}hej".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files: [(&str, &[u8], &str); 5] = [
        ("utf16", &utf16, "text/plain; charset=utf-16le"),
        ("latin1", b"caf\xe9\n", "application/octet-stream"),
        ("nul", b"a\0b", "application/octet-stream"),
        ("png", b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        ("cut", "é".as_bytes().split_at(1).0, "application/octet-stream"),
    ];
    for (name, bytes, media_type) in files {
        workspace.put(name, bytes);
        let output = read(&workspace, input(name)).unwrap();
        assert_eq!((output.content, output.encoding), (None, Encoding::Binary), "{name}");
        assert_eq!(output.media_type.as_deref(), Some(media_type), "{name}");
        assert_eq!((output.lines, output.sha256), (None, Some(hash::of(bytes))));
        let base64 = ReadInput { encoding: Some(ReadAs::Base64), ..input(name) };
        let output = read(&workspace, base64).unwrap();
        assert_eq!(STANDARD.decode(output.content.unwrap()).unwrap(), bytes);
        assert_eq!((output.encoding, output.truncated), (Encoding::Base64, false));
    }
    let both = ReadInput { encoding: Some(ReadAs::Base64), ..lines("nul", 1, None) };
    assert_eq!(read(&workspace, both).unwrap_err().fault(), Fault::InvalidInput);
}

#[test]
fn bytes_are_read_on_until_they_are_whole() {
    let workspace = Workspace::new();
    let bytes: Vec<u8> = (0..2_000_000_u32)
        .map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1])
        .collect();
    workspace.put("bytes", &bytes);
    let (mut again, mut next) = (Vec::new(), Some(0));
    while let Some(byte) = next {
        let base64 = Some(ReadAs::Base64);
        let ask = ReadInput { encoding: base64, start_byte: Some(byte), ..input("bytes") };
        let output = read(&workspace, ask).unwrap();
        again.extend(STANDARD.decode(output.content.unwrap()).unwrap());
        next = output.next_byte;
    }
    assert!(again == bytes);
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    let workspace = Workspace::new();
    mkfifo(&workspace.at("pipe"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(workspace.at("socket")).unwrap();
    std::fs::create_dir(workspace.at("directory")).unwrap();
    symlink("pipe", workspace.at("to-pipe")).unwrap();
    for name in ["pipe", "socket", "directory", "to-pipe", ".", "directory/"] {
        let error = read(&workspace, input(name)).unwrap_err();
        assert_eq!(error.fault(), Fault::NotAFile, "{name}");
    }
    if nix::unistd::geteuid().is_root() {
        let zero = nix::sys::stat::makedev(1, 5);
        let kind = nix::sys::stat::SFlag::S_IFCHR;
        nix::sys::stat::mknod(&workspace.at("zero"), kind, Mode::S_IRWXU, zero).unwrap();
        let error = read(&workspace, input("zero")).unwrap_err();
        assert_eq!(error.to_string(), "zero is a device: name a file");
    }
    workspace.put("file", "");
    for (name, fault) in [
        ("file/", Fault::NotADirectory),
        ("file/x", Fault::NotADirectory),
        ("missing", Fault::FileNotFound),
        ("missing/x", Fault::FileNotFound),
    ] {
        assert_eq!(read(&workspace, input(name)).unwrap_err().fault(), fault, "{name}");
    }
}

#[test]
fn a_sparse_file_of_a_tebibyte_takes_neither_memory_nor_time() {
    let workspace = Workspace::new();
    workspace.put("sparse", "first\nsecond\n");
    let file = File::options().write(true).open(workspace.at("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let stop = Stop::new(Some(Instant::now() + Duration::from_secs(60)));
    let target = ReadFile::find(&workspace.roots, input("sparse")).unwrap();
    let output = target.run(&stop, None).unwrap();
    assert_eq!((output.size, output.encoding), (1 << 40, Encoding::Binary));
    assert_eq!((output.sha256, output.lines, output.content), (None, None, None));
    let ask = ReadInput {
        encoding: Some(ReadAs::Base64),
        start_byte: Some((1 << 40) - 3),
        ..input("sparse")
    };
    let output = read(&workspace, ask).unwrap();
    assert_eq!((output.content.as_deref(), output.truncated), (Some("AAAA"), false));
}

#[test]
fn a_text_larger_than_is_read_whole_has_its_lines() {
    let workspace = Workspace::new();
    let line = format!("{}\n", "x".repeat(1023));
    let count = WHOLE / 1024 + 10;
    let times = usize::try_from(count).unwrap();
    workspace.put("log", line.repeat(times));
    let output = read(&workspace, lines("log", count, None)).unwrap();
    assert_eq!(output.content.as_deref(), Some(line.as_str()));
    assert_eq!((output.start_line, output.lines, output.sha256), (Some(count), None, None));
    assert_eq!(output.size, count * 1024);
    let error = read(&workspace, lines("log", count + 5, None)).unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
    let byte = ReadInput { start_byte: Some((count - 1) * 1024 + 1020), ..input("log") };
    let output = read(&workspace, byte).unwrap();
    assert_eq!((output.content.as_deref(), output.start_line), (Some("xxx\n"), None));
}

#[test]
fn files_that_say_that_they_are_empty_are_read() {
    let roots = Roots::new(vec![Root::open("/proc".as_ref()).unwrap()]);
    let read = |path| ReadFile::find(&roots, input(path))?.run(&Stop::new(None), None);
    let output = read("version").unwrap();
    assert!(output.content.unwrap().starts_with("Linux version"));
    assert!(output.size > 0);
    for magic in ["self/root/etc/passwd", "self/fd/0", "self/cwd/x", "self/exe"] {
        assert_eq!(read(magic).unwrap_err().fault(), Fault::PathOutsideWorkspace, "{magic}");
    }
}

#[test]
fn a_file_that_shrinks_or_grows_once_it_is_found_is_read_as_it_is() {
    let workspace = Workspace::new();
    for (before, after) in [("long text\n".repeat(99), "x".to_owned()), ("".into(), "yy".into())] {
        workspace.put("f", before);
        let target = ReadFile::find(&workspace.roots, input("f")).unwrap();
        workspace.put("f", &after);
        let output = target.run(&Stop::new(None), None).unwrap();
        assert_eq!(output.content.unwrap(), after);
        assert_eq!((output.size, output.changed), (after.len() as u64, true));
        assert_eq!(output.sha256, None);
    }
}

#[test]
fn reading_ends_when_it_is_told_to() {
    let workspace = Workspace::new();
    workspace.put("f", "text");
    let stop = Stop::new(None);
    stop.say();
    let target = ReadFile::find(&workspace.roots, input("f")).unwrap();
    assert_eq!(target.run(&stop, None).unwrap_err(), FileError::Stopped);
}

#[test]
fn an_absolute_symlink_that_names_the_root_is_followed_and_one_that_does_not_is_not() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.at("a/b")).unwrap();
    workspace.put("a/b/f", "in");
    std::fs::write(workspace.outside().join("canary"), "out").unwrap();
    symlink(workspace.at("a/b"), workspace.at("to-b")).unwrap();
    symlink(workspace.at("to-b/f"), workspace.at("a/to-f")).unwrap();
    symlink(workspace.outside().join("canary"), workspace.at("out")).unwrap();
    symlink(workspace.outside().join("none"), workspace.at("out-to-nothing")).unwrap();
    symlink(workspace.at("circle"), workspace.at("circle")).unwrap();
    let content = |path: &str| read(&workspace, input(path)).map(|output| output.content.unwrap());
    for path in ["to-b/f", "a/to-f", "to-b/../to-f", "a/../to-b/./f"] {
        assert_eq!(content(path).unwrap(), "in", "{path}");
    }
    let target = ReadFile::find(&workspace.roots, input("a/to-f")).unwrap();
    let real = std::fs::canonicalize(workspace.at("a/b/f")).unwrap();
    assert_eq!(target.names(), [real.into_os_string().into_encoded_bytes()]);
    for path in ["out", "out-to-nothing", "to-b/../../../canary", "none/../../canary"] {
        assert_eq!(content(path).unwrap_err().fault(), Fault::PathOutsideWorkspace, "{path}");
    }
    assert_eq!(content("circle").unwrap_err().fault(), Fault::FileNotFound);
    assert_eq!(content("to-b/none").unwrap_err().fault(), Fault::FileNotFound);
}
