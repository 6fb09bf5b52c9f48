//! curl's shipped grammar reads what curl reads: recorded by recorded/curl.py.

use tool_policy::grammar::Why;

use crate::support::{self, read, shipped, words};

const RECORDED: &str = include_str!("../recorded/curl.txt");

#[test]
fn command_lines_of_curl_are_read() {
    let curl = shipped("curl");
    let cases = [
        ("-sSLo out http://a/", "--silent --show-error --location --output=out : http://a/"),
        ("-XPOST -dx=y http://a/", "--request=POST --data=x=y : http://a/"),
        ("-X=POST http://a/", "--request==POST : http://a/"),
        (
            "--outp x http://a/",
            "unread: --outp of tool is not written in full: it may be --output or --output-dir",
        ),
        ("--request-t x http://a/", "--request-target=x : http://a/"),
        ("-N --buffer http://a/", "--no-buffer !--no-buffer : http://a/"),
        ("http://a/ -: http://b/", "--next : http://a/ http://b/"),
        ("--output=x http://a/", "unread: --output=x is no option of tool known to these rules"),
        ("--expand-url {{a}}", "unread: --expand-url is no option of tool known to these rules"),
        ("http://a/ -o", "unread: -o of tool needs a value"),
        ("--help", "--help :"),
        ("--help all", "--help=all :"),
    ];
    for (words, expected) in cases {
        assert_eq!(read(&curl, words), expected, "curl {words}");
    }
}

#[test]
fn reading_agrees_with_curl() {
    let curl = shipped("curl");
    let (mut agreed, mut refused) = (0, 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (given, theirs) = line.split_once('\t').unwrap();
        let args = words(given);
        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
        let ours = curl.read(&args);
        let context = format!("curl {given}\n{theirs}\n{}", support::shown(&ours));
        // More options begin alike in newer versions, and `--no` is a beginning of
        // every negated one.
        let unsure = ours.unread.as_ref().is_some_and(|it| matches!(it.why, Why::Ambiguous(_)));
        match theirs.split_once(' ') {
            Some(_) if unsure => {}
            Some((_, urls)) => {
                assert!(ours.unread.is_none(), "{context}");
                // `--url` names one as well: first those, then what is left, in
                // order of the line.
                let named = ours.options.iter().filter(|each| each.option.name() == "--url");
                let count = named.count() + ours.operands.len();
                let urls: Vec<&str> = urls.split(' ').collect();
                assert_eq!(count, urls.len(), "{context}");
                for operand in &ours.operands {
                    let plain = operand.strip_suffix(b"/").unwrap_or(operand);
                    let held = urls.iter().any(|url| url.as_bytes().starts_with(plain));
                    assert!(held, "{context}");
                }
                agreed += 1;
            }
            // Of `--no-x` curl takes no beginnings, of which one here is read.
            None if theirs == "refused" && given.contains("--no-") => {}
            None if theirs == "refused" => {
                assert!(ours.unread.is_some(), "{context}");
                refused += 1;
            }
            None => {}
        }
    }
    assert!(agreed > 150 && refused > 30, "{agreed} agreed, {refused} refused");
}
