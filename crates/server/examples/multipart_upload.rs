//! File uploads with a form. The server streams the files to disk, limits their size, and saves them under
//! safe names.
//!
//! ```sh
//! cargo run --release --example multipart_upload -- uploads
//! curl -i http://127.0.0.1:8080/files -F file=@Cargo.toml -F file=@Cargo.lock     # 201
//! curl -i http://127.0.0.1:8080/files -F file=@Cargo.toml                         # 409: the file exists
//! curl -i http://127.0.0.1:8080/files -F 'file=x;filename=../../etc/passwd'       # saved as `passwd`
//! head -c 20M /dev/zero | curl -i http://127.0.0.1:8080/files -F 'file=@-;filename=zeros'    # 413
//! ```

use std::error::Error;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::NamedTempFile;
use thruway_server::extractors::State;
use thruway_server::extractors::multipart::{Field, Multipart, MultipartError};
use thruway_server::{IntoResponse, Response, Router, Server, StatusCode};
use tokio::io::AsyncWriteExt;

/// Returns an application that saves uploads in `directory`.
pub(crate) fn app(directory: PathBuf) -> Router {
    Router::new().with_state(Arc::new(directory)).post("/files", upload).into_router()
}

async fn upload(State(directory): State<Arc<PathBuf>>, form: Multipart) -> Result<Response, Refusal> {
    let mut form = form.max_bytes(UPLOAD_BYTES_MAX).max_field_bytes(FILE_BYTES_MAX);
    let mut kept = Vec::new();
    while let Some(field) = form.next_field().await? {
        kept.push(keep(&directory, field).await?);
    }
    Ok(Response::json(&json!({ "kept": kept })).with_status(StatusCode::CREATED))
}

/// Saves the file of `field` in `directory`, and returns its name. Only the user of this process may read the
/// file. If the upload fails or is canceled, the incomplete file is removed.
async fn keep(directory: &Path, mut field: Field<'_>) -> Result<String, Refusal> {
    if field.name() != Some("file") {
        return Err(Refusal::Field);
    }
    let name = field.file_name().and_then(safe_name).ok_or(Refusal::Name)?;
    let temporary = NamedTempFile::new_in(directory)?;
    let mut file = tokio::fs::File::from_std(temporary.reopen()?);
    while let Some(piece) = field.chunk().await? {
        file.write_all(&piece).await?;
    }
    file.sync_all().await?;
    temporary.persist_noclobber(directory.join(&name)).map_err(|error| error.error)?;
    Ok(name)
}

/// Returns the last part of `name`, in which `_` replaces characters that are special in a file system or a
/// shell. Returns `None` if the result is empty.
fn safe_name(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next()?;
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let safe: String = last.chars().map(|c| if is_safe(c) { c } else { '_' }).take(NAME_BYTES_MAX).collect();
    // File names with a leading dot are hidden or special. File names with a leading hyphen look like options
    // of a command.
    let safe = safe.trim_start_matches(['.', '-']);
    (!safe.is_empty()).then(|| safe.to_owned())
}

/// Reason to reject an upload. Earlier files of the same upload stay saved.
enum Refusal {
    Disk(io::Error),
    Field,
    Form(MultipartError),
    Name,
}

impl From<MultipartError> for Refusal {
    fn from(error: MultipartError) -> Self {
        Self::Form(error)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, message) = match self {
            Self::Disk(error) if error.kind() == ErrorKind::AlreadyExists => {
                (StatusCode::CONFLICT, "a file with this name already exists\n".to_owned())
            }
            Self::Disk(error) => {
                tracing::error!(%error, "cannot save an upload");
                return Response::new(StatusCode::INTERNAL_SERVER_ERROR);
            }
            Self::Field => {
                (StatusCode::UNPROCESSABLE_CONTENT, "the form has another field than `file`\n".to_owned())
            }
            Self::Form(error) => return error.into_response(),
            Self::Name => (StatusCode::UNPROCESSABLE_CONTENT, "a file needs a name\n".to_owned()),
        };
        Response::text(message).with_status(status)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let directory = std::env::args_os().nth(1).map_or_else(|| "uploads".into(), PathBuf::from);
    fs::create_dir_all(&directory)?;
    Ok(Server::new(app(directory)).listen("127.0.0.1:8080")?.run()?)
}

const FILE_BYTES_MAX: u64 = 8 << 20;
const UPLOAD_BYTES_MAX: u64 = 32 << 20;
const NAME_BYTES_MAX: usize = 100;
