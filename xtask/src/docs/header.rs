//! crates/lanesum-c/include/lanesum.h, from the functions and types of that crate: a header by hand would drift from what is compiled.

use cbindgen::{Builder, Config};

use crate::error::XtaskError;
use crate::workspace::Workspace;

/// The crate whose functions are declared.
const ROOM: &str = "crates/lanesum-c";

pub fn render(workspace: &Workspace) -> Result<String, XtaskError> {
    let room = workspace.root().join(ROOM);
    let config = room.join("cbindgen.toml");
    let config = Config::from_file(&config).map_err(|reason| XtaskError::NoHeader { reason })?;
    let bindings = Builder::new()
        .with_config(config)
        .with_crate(&room)
        .generate()
        .map_err(|error| XtaskError::NoHeader {
            reason: error.to_string(),
        })?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).map_err(|error| XtaskError::NoHeader {
        reason: error.to_string(),
    })
}
