//! Shows in a plain GTK dialog why the app cannot start or its window cannot be shown: a person who starts it from a menu does not read
//! standard error, and what is missing may be just what the pages need.

use crate::bridge::failure;
use gtk::prelude::{DialogExt, GtkWindowExt, MessageDialogExt, WidgetExt};
use gtk::{ButtonsType, DialogFlags, MessageDialog, MessageType, Window};
use holdall_client::api::words::why;
use holdall_client::api::{Code, Failure};
use holdall_client::paths::PathsError;
use holdall_gui::advice;
use holdall_gui::texts::{said, text};
use std::error::Error;
use std::io;
use std::io::Write;
use std::path::Path;

/// There is no screen, so nothing can be shown on one.
pub fn no_screen() -> Failure {
    refused(text("app.refused.screen"), text("app.refused.screen.action"))
}

/// There is no directory for this user's files.
pub fn no_place(error: PathsError) -> Failure {
    Failure { consequence: text("app.refused.consequence"), ..advice::shown(error.into()) }
}

/// It is not clear whether the app is running already.
pub fn no_lock(directory: &Path, error: &io::Error) -> Failure {
    let directory = directory.display().to_string();
    refused(
        said("app.refused.lock", &[("why", &why(error))]),
        said("app.refused.lock.action", &[("directory", &directory)]),
    )
}

/// The window cannot be created.
pub fn no_window(error: &dyn Error) -> Failure {
    let why = error.to_string();
    refused(said("app.refused.window", &[("why", &why)]), text("app.refused.window.action"))
}

fn refused(message: String, action: String) -> Failure {
    Failure { consequence: text("app.refused.consequence"), action, ..failure(Code::Failed, message) }
}

/// Shows it, and waits until it was read. Only for when no event loop is running.
pub fn tell(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "{}", for_a_terminal(failure));
    // If this fails too, there is no screen.
    if gtk::init().is_ok() {
        let dialog = dialog("app.refused.title", failure);
        dialog.run();
        dialog.close();
    }
}

/// Shows it while the event loop runs, on the loop's thread.
pub fn show(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "{}", for_a_terminal(failure));
    let dialog = dialog("app.refused.title.window", failure);
    dialog.connect_response(|dialog, _| dialog.close());
    dialog.show();
}

fn dialog(title: &str, failure: &Failure) -> MessageDialog {
    let dialog = MessageDialog::new(
        None::<&Window>,
        DialogFlags::empty(),
        MessageType::Error,
        ButtonsType::Close,
        &failure.message,
    );
    dialog.set_title(&text(title));
    dialog.set_secondary_text(Some(&format!("{}\n\n{}", failure.consequence, failure.action)));
    dialog
}

fn for_a_terminal(failure: &Failure) -> String {
    format!("holdall-app: {} {} {}", failure.message, failure.consequence, failure.action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_the_consequence_and_what_to_do() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let relative = PathsError::Relative { variable: "HOLDALL_STATE_DIR", value: "here".into() };
        for (failure, cause, action) in [
            (no_screen(), "no screen", "holdall web"),
            (no_place(relative), "not an absolute path", "HOLDALL_STATE_DIR"),
            (no_lock(Path::new("/run/x"), &denied()), "permission denied", "/run/x"),
            (no_window(&denied()), "permission denied", "holdall web"),
        ] {
            assert!(failure.message.contains(cause), "{failure:?}");
            assert!(failure.consequence.starts_with("Nothing was changed"), "{failure:?}");
            assert!(failure.action.contains(action), "{failure:?}");
            assert!(for_a_terminal(&failure).ends_with(&failure.action));
        }
    }
}
