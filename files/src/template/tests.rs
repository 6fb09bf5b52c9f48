//! Templates on a workspace in memory.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;
use crate::fixture::Workspace;

fn file(path: &str, content: &str) -> TemplateFile {
    TemplateFile { path: path.into(), content: content.into(), encoding: None, mode: None }
}

fn given(files: Vec<TemplateFile>, variables: &[(&str, &str)]) -> TemplateInput {
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    TemplateInput {
        files: Some(files),
        target: "app".into(),
        variables: variables.collect(),
        ..TemplateInput::default()
    }
}

fn inject(workspace: &Workspace, input: TemplateInput) -> Result<TemplateOutput, FileError> {
    workspace.run::<InjectTemplate>(input)
}

#[test]
fn variables_are_filled_in_once_and_the_rest_is_as_it_was() {
    let values = [("A", "1"), ("LONG_name2", "{{A}}"), ("_", "")];
    let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let mut filler = Filler::new(values, false).unwrap();
    for (text, expected) in [
        ("", ""),
        ("{{A}}{{A}}", "11"),
        ("a{{LONG_name2}}b", "a{{A}}b"),
        ("{{{A}}}", "{1}"),
        ("{{_}}x", "x"),
        ("style={{ color: 'red' }}", "style={{ color: 'red' }}"),
        ("{{ A }} {{1}} {{a-b}} {{", "{{ A }} {{1}} {{a-b}} {{"),
        ("å{{A}}å", "å1å"),
    ] {
        assert_eq!(filler.fill(text, "f").unwrap(), expected, "{text}");
    }
    let error = filler.fill("a\nb {{B}}\n", "f").unwrap_err();
    assert_eq!(error.fault(), Fault::InvalidInput);
    assert!(error.to_string().starts_with("f, line 2: no variable B is given"), "{error}");
    assert_eq!(filler.told(), (vec!["A".into(), "LONG_name2".into(), "_".into()], vec![]));
    assert!(Filler::new([("a-b".to_owned(), String::new())].into(), false).is_err());
    let mut keeps = Filler::new(BTreeMap::new(), true).unwrap();
    assert_eq!(keeps.fill("{{B}}", "f").unwrap(), "{{B}}");
}

#[test]
fn a_template_is_written_with_names_contents_and_modes() {
    let workspace = Workspace::new();
    let mut run = file("bin/{{NAME}}.sh", "echo {{NAME}}\n");
    run.mode = Some("0755".into());
    let mut picture = file("logo", "/wB7e05BTUV9fQ==");
    picture.encoding = Some(ReadAs::Base64);
    let files = vec![file("src/{{DIR}}/main.js", "// {{NAME}}"), run, picture];
    let variables = [("NAME", "shop"), ("DIR", "a/b"), ("OTHER", "x")];
    let mut input = given(files, &variables);
    input.dry_run = true;
    let dry = inject(&workspace, input.clone()).unwrap();
    assert!(dry.dry_run && !workspace.at("app").exists());
    input.dry_run = false;
    let output = inject(&workspace, input.clone()).unwrap();
    assert_eq!(output.files, dry.files);
    let told: Vec<(&str, u64, bool)> =
        output.files.iter().map(|made| (made.path.as_str(), made.bytes, made.created)).collect();
    let expected =
        [("app/bin/shop.sh", 10, true), ("app/logo", 10, true), ("app/src/a/b/main.js", 7, true)];
    assert_eq!(told, expected);
    assert_eq!(
        (output.variables_used, output.unused),
        (vec!["DIR".into(), "NAME".into()], vec!["OTHER".into()])
    );
    assert_eq!(workspace.get("app/src/a/b/main.js"), b"// shop");
    assert_eq!(workspace.get("app/logo"), b"\xff\0{{NAME}}");
    assert_eq!(std::fs::metadata(workspace.at("app/bin/shop.sh")).unwrap().mode() & 0o777, 0o755);
    assert_eq!(workspace.names("app"), ["bin", "logo", "src"], "nothing else is left");
    // What is there is only replaced where that is said.
    let error = inject(&workspace, input.clone()).unwrap_err();
    assert_eq!(error.fault(), Fault::AlreadyExists);
    assert!(error.to_string().starts_with("bin/shop.sh, logo, src/a/b/main.js: there"), "{error}");
    std::fs::set_permissions(workspace.at("app/logo"), PermissionsExt::from_mode(0o600)).unwrap();
    workspace.put("app/logo", "mine");
    input.overwrite = true;
    let output = inject(&workspace, input).unwrap();
    assert!(output.files.iter().all(|made| !made.created));
    assert_eq!(workspace.get("app/logo"), b"\xff\0{{NAME}}");
    assert_eq!(std::fs::metadata(workspace.at("app/logo")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(workspace.names("app"), ["bin", "logo", "src"]);
}

#[test]
fn a_directory_of_the_workspace_is_a_template() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.at("template/.git")).unwrap();
    std::fs::create_dir_all(workspace.at("template/{{NAME}}")).unwrap();
    workspace.put("template/.git/config", "no");
    workspace.put("template/.gitignore", "node_modules\n");
    workspace.put("template/{{NAME}}/run", "{{NAME}}");
    let executable = PermissionsExt::from_mode(0o775);
    std::fs::set_permissions(workspace.at("template/{{NAME}}/run"), executable).unwrap();
    let input = TemplateInput {
        template: Some("template".into()),
        target: ".".into(),
        variables: [("NAME".to_owned(), "shop".to_owned())].into(),
        ..TemplateInput::default()
    };
    let target = InjectTemplate::find(&workspace.roots, input.clone()).unwrap();
    let names: Vec<String> =
        target.names().into_iter().map(|name| String::from_utf8(name).unwrap()).collect();
    let root = workspace.at("").display().to_string();
    let short: Vec<&str> = names.iter().map(|name| name.strip_prefix(&root).unwrap()).collect();
    let seen = [".gitignore", "shop/run", "template/.gitignore", "template/{{NAME}}/run"];
    assert_eq!(short, seen, "rules see what is written and what is read");
    inject(&workspace, input.clone()).unwrap();
    assert_eq!(workspace.get("shop/run"), b"shop");
    assert_ne!(std::fs::metadata(workspace.at("shop/run")).unwrap().mode() & 0o100, 0);
    assert_eq!(workspace.names("."), [".gitignore", "shop", "template"]);
    symlink("/etc/passwd", workspace.at("template/link")).unwrap();
    assert_eq!(inject(&workspace, input).unwrap_err().fault(), Fault::NotAFile);
}

#[test]
fn nothing_leads_out_of_the_target() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.at("app/real")).unwrap();
    symlink(workspace.outside(), workspace.at("app/out")).unwrap();
    symlink("real", workspace.at("app/in")).unwrap();
    symlink("real/f", workspace.at("app/file")).unwrap();
    for path in ["../f", "a/../../f", "/f", "a//f", "./f", "", "f/", "a\0b", "{{UP}}/f"] {
        let input = given(vec![file(path, "x")], &[("UP", "..")]);
        assert_eq!(inject(&workspace, input).unwrap_err().fault(), Fault::InvalidInput, "{path}");
    }
    for path in ["out/f", "in/f", "file/f"] {
        let mut input = given(vec![file(path, "x")], &[]);
        input.overwrite = true;
        let error = inject(&workspace, input).unwrap_err();
        assert_eq!(error.fault(), Fault::NotADirectory, "{path}: {error}");
    }
    let mut input = given(vec![file("file", "x")], &[]);
    input.overwrite = true;
    assert_eq!(inject(&workspace, input).unwrap_err().fault(), Fault::NotAFile);
    for target in ["..", "/etc", "app/out"] {
        let mut input = given(vec![file("f", "x")], &[]);
        input.target = target.into();
        let error = inject(&workspace, input).unwrap_err();
        assert_eq!(error.fault(), Fault::PathOutsideWorkspace, "{target}");
    }
    assert!(!workspace.outside().join("f").exists());
    assert_eq!(workspace.names("app"), ["file", "in", "out", "real"]);
    assert_eq!(workspace.names("app/real"), [] as [&str; 0]);
}

#[test]
fn where_one_cannot_be_written_none_is() {
    let workspace = Workspace::new();
    std::fs::create_dir_all(workspace.at("app/z")).unwrap();
    workspace.put("app/a", "old");
    workspace.put("app/z/there", "old");
    let pieces = |names: &[&str]| -> Vec<Piece> {
        let piece =
            |name: &&str| Piece { name: (*name).into(), content: b"new".to_vec(), mode: None };
        names.iter().map(piece).collect()
    };
    let directory = std::fs::File::open(workspace.at("app")).unwrap();
    let stop = Stop::new(None);
    // Somebody makes a directory of the last name after all was looked at.
    let all = pieces(&["a", "b/new", "z"]);
    let stage = Stage::write(directory.as_fd(), "app", &all, false, &stop).unwrap();
    assert_eq!(stage.take(&all, true, &stop).unwrap_err().fault(), Fault::FileChanged);
    assert_eq!(workspace.names("app"), ["a", "z"]);
    assert_eq!(workspace.get("app/a"), b"old");
    // Or a file, which is not to be replaced.
    let all = pieces(&["b/new", "c", "z/there"]);
    let stage = Stage::write(directory.as_fd(), "app", &all, false, &stop).unwrap();
    assert_eq!(stage.take(&all, false, &stop).unwrap_err().fault(), Fault::AlreadyExists);
    assert_eq!(workspace.names("app"), ["a", "z"]);
    assert_eq!(workspace.get("app/z/there"), b"old");
    // Whoever is told to stop leaves nothing.
    let all = pieces(&["b", "c"]);
    let stage = Stage::write(directory.as_fd(), "app", &all, false, &stop).unwrap();
    stop.say();
    assert_eq!(stage.take(&all, false, &stop).unwrap_err(), FileError::Stopped);
    assert_eq!(workspace.names("app"), ["a", "z"]);
}

#[test]
fn what_cannot_be_meant_is_said_before_anything_is_written() {
    let workspace = Workspace::new();
    let both = TemplateInput { template: Some(".".into()), ..given(vec![], &[]) };
    let mut mode = file("f", "");
    mode.mode = Some("4755".into());
    for (what, input) in [
        ("nothing", given(vec![], &[])),
        ("both", both),
        ("twice", given(vec![file("{{A}}", ""), file("x", "")], &[("A", "x")])),
        ("a file and a directory", given(vec![file("a", ""), file("a/b", "")], &[])),
        ("a mode with more than permissions", given(vec![mode], &[])),
        ("a variable in a name", given(vec![file("{{NO}}", "")], &[])),
        ("a variable in a text", given(vec![file("ok", ""), file("z", "{{NO}}")], &[])),
    ] {
        assert_eq!(inject(&workspace, input).unwrap_err().fault(), Fault::InvalidInput, "{what}");
        assert!(!workspace.at("app").exists(), "{what}");
    }
    let many = (0..=FILES).map(|number| file(&number.to_string(), "")).collect();
    assert_eq!(inject(&workspace, given(many, &[])).unwrap_err().fault(), Fault::FileTooLarge);
    let large = "{{A}}".repeat(20);
    let value = "x".repeat(1 << 20);
    let input = given(vec![file("f", &large)], &[("A", &value)]);
    assert_eq!(inject(&workspace, input).unwrap_err().fault(), Fault::FileTooLarge);
    assert!(!workspace.at("app").exists());
}

#[test]
fn files_are_called_by_the_targets_name_without_what_says_nothing() {
    for (target, path) in [
        (".", "f"),
        ("./", "f"),
        ("./a/.//b/", "a/b/f"),
        ("a", "a/f"),
        ("/ws/a/", "/ws/a/f"),
        ("a/../b", "a/../b/f"),
    ] {
        assert_eq!(called(target, "f"), path, "{target}");
    }
    let workspace = Workspace::new();
    let input = |overwrite| TemplateInput {
        files: Some(vec![file("bob.txt", "x")]),
        target: ".".into(),
        overwrite,
        ..TemplateInput::default()
    };
    let made = workspace.run::<InjectTemplate>(input(false)).unwrap();
    assert_eq!(made.files.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["bob.txt"]);
    std::fs::remove_file(workspace.at("bob.txt")).unwrap();
    std::fs::create_dir(workspace.at("bob.txt")).unwrap();
    let error = workspace.run::<InjectTemplate>(input(true)).unwrap_err().to_string();
    assert!(error.starts_with("bob.txt is a directory"), "{error}");
}
