//! The HTTP proxy for requests to stores: none, the one that is set, or, if a person has chosen so, the environment's.

use crate::api::{Action, Code, Failure, SetProxy};
use crate::daemon::{failure, registry};
use holdall_core::store::proxy::{Proxy, ProxyError};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::Path;
use zeroize::Zeroizing;

/// The file for its login, beside the one for the stores' logins: readable only by its owner, and in no report.
pub const LOGIN: &str = "proxy-login.json";

/// The login at the proxy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    user: String,
    password: Zeroizing<String>,
}

impl Login {
    /// The remembered login.
    pub fn load(state: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(state.join(LOGIN)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Remembers `login`, or forgets it if `None`.
    pub fn save(login: Option<&Self>, state: &Path) -> io::Result<()> {
        let path = state.join(LOGIN);
        match login {
            Some(login) => registry::replace(&path, &Zeroizing::new(serde_json::to_vec_pretty(login)?)),
            None => match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }
}

/// Splits a setting from its login.
pub fn split(set: SetProxy) -> (SetProxy, Option<Login>) {
    match set {
        SetProxy::Server { address, except, user, password } => {
            let password = Zeroizing::new(password.unwrap_or_default());
            let login = user.map(|user| Login { user, password });
            (SetProxy::Server { address, except, user: None, password: None }, login)
        }
        other => (other, None),
    }
}

/// The proxy that the setting means.
pub fn of(set: Option<&SetProxy>, login: Option<&Login>) -> Result<Option<Proxy>, ProxyError> {
    match set {
        None | Some(SetProxy::Off) => Ok(None),
        Some(SetProxy::Environment) => Proxy::from_environment(|name| std::env::var(name).ok()),
        Some(SetProxy::Server { address, except, .. }) => {
            let proxy = Proxy::parse(address)?.except(except);
            Ok(Some(match login {
                Some(login) => proxy.with_login(login.user.clone(), login.password.clone()),
                None => proxy,
            }))
        }
    }
}

/// The failure for an unusable setting.
pub fn failure(error: &ProxyError) -> Failure {
    let action = match error {
        ProxyError::Address | ProxyError::Kind(_) => Action::Proxy,
        ProxyError::Secret => Action::ProxyLogin,
    };
    failure::failure(
        Code::Usage,
        crate::api::words::sentence(&error.to_string()),
        failure::NOTHING_CHANGED,
        action,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_used_only_where_it_is_set() {
        assert_eq!(of(None, None), Ok(None));
        assert_eq!(of(Some(&SetProxy::Off), None), Ok(None));
        let set = |address: &str| SetProxy::Server {
            address: address.to_owned(),
            except: "nas".to_owned(),
            user: Some("me".to_owned()),
            password: Some("hunter2".to_owned()),
        };
        let (kept, login) = split(set("http://p:3128"));
        let proxy = of(Some(&kept), login.as_ref()).unwrap().unwrap();
        let state = tempfile::tempdir().unwrap();
        Login::save(login.as_ref(), state.path()).unwrap();
        assert!(Login::load(state.path()).unwrap() == login && login.is_some());
        Login::save(None, state.path()).unwrap();
        assert!(Login::load(state.path()).unwrap().is_none());
        assert!(!serde_json::to_string(&kept).unwrap().contains("hunter2"));
        assert!(proxy.serves("example.org") && !proxy.serves("nas") && proxy.authorization().is_some());
        assert!(!format!("{:?}", set("p")).contains("hunter2"));
        let error = of(Some(&set("socks5://p")), None).unwrap_err();
        assert!(failure(&error).message.contains("socks5"));
    }
}
