//! `inject_template`: a directory has the files of a template, with its variables filled
//! in, or is as it was.
//!
//! Owns: what is to be made from which source, under which name, and the order of things:
//! all is read, filled in and checked before the first byte is written. Beneath the target
//! and the template no symlink is followed: the names that rules see are those that are
//! written. Must not: replace what is no file, or write what the rules did not see.
//!
//! - `fill`    text with variables
//! - `source`  a template's files, listed and read
//! - `stage`   files that take their names together

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool_protocol::Fault;

use self::fill::Filler;
use self::source::Source;
use self::stage::{Parted, Piece, Stage};
use crate::error::{Doing, FileError, shown};
use crate::put::Parents;
use crate::read::ReadAs;
use crate::way::{self, Way};
use crate::write::is_zero;
use crate::{Operation, Roots, Stop, Target, opened, shape};

mod fill;
mod source;
mod stage;

/// How many files a template has at most.
const FILES: usize = 1000;
/// In how many directories: each is open until all is done.
const DIRECTORIES: usize = 200;
/// How many bytes of content they have together, before and after.
const BYTES: usize = 16 << 20;

/// `inject_template`.
#[derive(Debug)]
pub struct InjectTemplate;

/// What to make from what.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateInput {
    /// A directory of the workspace with the template's files. Either this or `files`.
    #[serde(default)]
    pub template: Option<String>,
    /// The template's files themselves. Either these or `template`.
    #[serde(default)]
    pub files: Option<Vec<TemplateFile>>,
    /// The directory in the workspace to put them into; made where it is missing.
    pub target: String,
    /// What `{{NAME}}` stands for, by name, in contents and in names of files.
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    /// Replace files that are there; else they are an error.
    #[serde(default)]
    pub overwrite: bool,
    /// Leave `{{NAME}}` as it is where `variables` has no NAME; else that is an error.
    #[serde(default)]
    pub keep_unknown: bool,
    /// Only say what would be written.
    #[serde(default)]
    pub dry_run: bool,
}

/// A file of a template.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    /// Its name beneath the target.
    pub path: String,
    /// All that it holds.
    pub content: String,
    /// "base64" where `content` is bytes as base64; else it is text.
    #[serde(default)]
    pub encoding: Option<ReadAs>,
    /// Its mode in octal, such as "755"; "644" where unset.
    #[serde(default)]
    pub mode: Option<String>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TemplateOutput {
    /// As it was asked for.
    pub target: String,
    /// Every file, by name.
    pub files: Vec<Made>,
    /// The variables that stood somewhere.
    pub variables_used: Vec<String>,
    /// Those that were given and stood nowhere.
    pub unused: Vec<String>,
    /// Nothing was written.
    pub dry_run: bool,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Made {
    /// Its name, by the target's.
    pub path: String,
    /// How many.
    pub bytes: u64,
    /// Nothing was there before.
    pub created: bool,
    /// So many other names (hard links) of the file that was replaced keep what it held.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_names: u64,
    /// Attributes of the file that was replaced which this one has not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<String>,
}

/// A template and where it goes, open.
#[derive(Debug)]
pub struct TemplateTarget {
    target: String,
    overwrite: bool,
    dry_run: bool,
    filler: Filler,
    source: Source,
    /// Names beneath the target, each with its place in the source.
    planned: BTreeMap<String, usize>,
    directory: OwnedFd,
    /// Directories to make, the last one being the target.
    missing: Vec<Vec<u8>>,
    real: Vec<u8>,
    lasting: bool,
}

impl Operation for InjectTemplate {
    const NAME: &'static str = "inject_template";
    type Input = TemplateInput;
    type Output = TemplateOutput;
    type Target = TemplateTarget;

    fn find(roots: &Roots, input: TemplateInput) -> Result<TemplateTarget, FileError> {
        let mut filler = Filler::new(input.variables, input.keep_unknown)?;
        let source = match (&input.template, input.files) {
            (Some(template), None) => Source::open(roots, template)?,
            (None, Some(files)) => Source::given(files)?,
            _ => return Err(invalid("give either template or files")),
        };
        let mut planned = BTreeMap::new();
        for (place, name) in source.names().enumerate() {
            let filled = filler.fill(name, &format!("the name {}", shown(name.as_bytes())))?;
            check_name(&filled, name)?;
            if planned.insert(filled.clone(), place).is_some() {
                let message = format!("two files of the template are both {}", shown_text(&filled));
                return Err(invalid(message));
            }
        }
        if planned.is_empty() {
            return Err(invalid("the template has no files"));
        }
        check_places(&planned)?;
        let place = roots.place(&input.target)?;
        let said = input.target.as_bytes();
        let (directory, missing) = match way::follow(&place, Doing::Writing, true)? {
            Way::Directory(directory) => (directory, Vec::new()),
            Way::Missing { directory, names, .. } => (directory, names),
            Way::There { .. } => {
                let message = "is no directory: name one to put the files into";
                let message = format!("{} {message}", shown(said));
                return Err(FileError::said(Fault::NotADirectory, message));
            }
        };
        let real = opened::real_below(directory.as_fd(), &missing, said)?;
        Ok(TemplateTarget {
            overwrite: input.overwrite,
            dry_run: input.dry_run,
            target: input.target,
            filler,
            source,
            planned,
            directory,
            missing,
            real,
            lasting: roots.last(),
        })
    }
}

impl Target for TemplateTarget {
    type Output = TemplateOutput;

    /// Every file that is written, and every one that is read.
    fn names(&self) -> Vec<Vec<u8>> {
        let written = self.planned.keys().map(|name| below(&self.real, name));
        written.chain(self.source.real_names()).collect()
    }

    fn run(
        mut self,
        stop: &Stop,
        _: Option<&mut dyn FnMut(serde_json::Value)>,
    ) -> Result<TemplateOutput, FileError> {
        let said = self.target.clone();
        let pieces = self.pieces(stop)?;
        let mut files = Vec::with_capacity(pieces.len());
        let mut there = Vec::new();
        for piece in &pieces {
            stop.check()?;
            // Beneath a directory that is still to be made nothing is.
            let created = !self.missing.is_empty()
                || stage::is_free(self.directory.as_fd(), &piece.name, &said)?;
            if !created {
                there.push(piece.name.as_str());
            }
            let path = called(&said, &piece.name);
            let bytes = shape::count(piece.content.len());
            files.push(Made { path, bytes, created, other_names: 0, not_kept: Vec::new() });
        }
        if !there.is_empty() && !self.overwrite {
            return Err(exist(&there));
        }
        if !self.dry_run {
            let mut made = Parents::default();
            let directory =
                made.make(self.directory, &self.missing, self.lasting, said.as_bytes())?;
            let stage = Stage::write(directory.as_fd(), &said, &pieces, self.lasting, stop)?;
            // The rules saw this name: the directory may have been moved since.
            if opened::real_name(directory.as_fd(), said.as_bytes())? != self.real {
                return Err(opened::changed(said.as_bytes()));
            }
            let parted = stage.take(&pieces, self.overwrite, stop)?;
            for (file, Parted { other_names, not_kept }) in files.iter_mut().zip(parted) {
                (file.other_names, file.not_kept) = (other_names, not_kept);
            }
            made.keep();
        }
        let (variables_used, unused) = self.filler.told();
        Ok(TemplateOutput { target: said, files, variables_used, unused, dry_run: self.dry_run })
    }
}

impl TemplateTarget {
    /// Every file as it is to be, by name.
    fn pieces(&mut self, stop: &Stop) -> Result<Vec<Piece>, FileError> {
        let (mut pieces, mut left) = (Vec::with_capacity(self.planned.len()), BYTES);
        for (name, place) in std::mem::take(&mut self.planned) {
            stop.check()?;
            let (content, mode) = self.source.read(place, left)?;
            let content = match String::from_utf8(content) {
                Ok(text) if !text.contains('\0') => {
                    self.filler.fill(&text, &shown_text(&name))?.into_bytes()
                }
                Ok(binary) => binary.into_bytes(),
                Err(binary) => binary.into_bytes(),
            };
            left = left.checked_sub(content.len()).ok_or_else(too_large)?;
            pieces.push(Piece { name, content, mode });
        }
        Ok(pieces)
    }
}

/// What a file of the target is called, by the target's name.
fn called(target: &str, name: &str) -> String {
    let mut parts = target.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>();
    parts.push(name);
    format!("{}{}", if target.starts_with('/') { "/" } else { "" }, parts.join("/"))
}

/// A name beneath the target: no way out of it, and no way to none.
fn check_name(name: &str, template: &str) -> Result<(), FileError> {
    let wrong = |part: &str| matches!(part, "" | "." | "..") || part.len() > 255;
    if name.contains('\0') || name.len() > 4000 || name.split('/').any(wrong) {
        let (name, template) = (shown_text(name), shown_text(template));
        return Err(invalid(format!(
            "{template} would be called {name}, which is no name of a file beneath target"
        )));
    }
    Ok(())
}

/// None may lie in another.
fn check_places(planned: &BTreeMap<String, usize>) -> Result<(), FileError> {
    let directories: BTreeSet<&str> = planned
        .keys()
        .flat_map(|name| name.match_indices('/').filter_map(|(at, _)| name.get(..at)))
        .collect();
    if directories.len() > DIRECTORIES {
        let message = format!("the template has more than {DIRECTORIES} directories");
        return Err(FileError::said(Fault::FileTooLarge, message));
    }
    match planned.keys().find(|name| directories.contains(name.as_str())) {
        Some(both) => {
            let both = shown_text(both);
            Err(invalid(format!("{both} would be a file and a directory")))
        }
        None => Ok(()),
    }
}

fn below(directory: &[u8], name: &str) -> Vec<u8> {
    let slash: &[u8] = if directory.last() == Some(&b'/') { b"" } else { b"/" };
    [directory, slash, name.as_bytes()].concat()
}

fn decoded(file: &TemplateFile) -> Result<Vec<u8>, FileError> {
    match file.encoding {
        Some(ReadAs::Base64) => STANDARD.decode(&file.content).map_err(|error| {
            let name = shown_text(&file.path);
            invalid(format!("{name}: its content is no base64 ({error}): give it with its padding"))
        }),
        _ => Ok(file.content.clone().into_bytes()),
    }
}

fn exist(there: &[&str]) -> FileError {
    const NAMED: usize = 10;
    let named: Vec<String> = there.iter().take(NAMED).map(|name| shown_text(name)).collect();
    let more = match there.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = "there already: choose another target, or set overwrite";
    FileError::said(Fault::AlreadyExists, format!("{}{more}: {message}", named.join(", ")))
}

fn too_large() -> FileError {
    let message = format!("the template is larger than {BYTES} bytes: take files out of it");
    FileError::said(Fault::FileTooLarge, message)
}

fn too_many() -> FileError {
    let message = format!("the template has more than {FILES} files: take some out of it");
    FileError::said(Fault::FileTooLarge, message)
}

fn invalid(message: impl Into<String>) -> FileError {
    FileError::said(Fault::InvalidInput, message)
}

fn shown_text(text: &str) -> String {
    shown(text.as_bytes())
}

#[cfg(test)]
mod tests;
