//! Stores that this computer can reach only through an HTTP proxy.

use crate::bench::Bench;
use crate::person::Person;
use holdall_servers::connect::{ConnectProxy, PASSWORD, USER};
use holdall_servers::dav::DavServer;
use std::fs;

/// Only the proxy can resolve the name. The environment also names a proxy, which the drive must not use.
#[test]
fn reaches_a_store_only_through_the_configured_proxy() {
    let bench = Bench::new();
    let server = DavServer::apache_self_signed("dav.example.org", 2);
    let (ca, port) = (server.ca().unwrap(), server.address().port());
    let store = format!("https://dav.example.org:{port}/d/?ca={}", ca.display());
    let proxy = ConnectProxy::start(server.address());
    let address = format!("http://{}", proxy.address());
    let environment = format!("http://{USER}:{PASSWORD}@{}", proxy.address());
    let mut a = Person::new(&bench, "a", &[("HTTPS_PROXY", &environment)]);
    let login = bench.text("proxy-login");
    fs::write(&login, format!("{USER}:{PASSWORD}\n")).unwrap();

    let failure = a.refused(&["store", "test", &store], 5, "offline");
    assert!(proxy.asked().is_empty(), "the environment alone says nothing: {failure}");

    let failure = a.refused(&["limits", "--proxy", "socks5://p:1080"], 2, "usage");
    assert!(failure["message"].as_str().unwrap().contains("socks5"), "{failure}");
    a.ok(&["limits", "--proxy", &address]);
    let failure = a.refused(&["store", "test", &store], 5, "offline");
    assert!(failure["message"].as_str().unwrap().contains("asks for a login"), "{failure}");

    let set = a.ok(&["limits", "--proxy", &address, "--proxy-login-file", &login]);
    assert_eq!(set["proxy_address"], proxy.address().to_string(), "{set}");
    a.ok(&["drive", "create", "d", "--store", &store, "--size", "64M", "--no-encryption"]);
    assert!(proxy.asked().iter().all(|to| *to == format!("dav.example.org:{port}")), "{:?}", proxy.asked());
    let text = a.reads(&["drive", "status", "d"]);
    assert!(text.contains(&format!("the proxy {}", proxy.address())), "{text}");

    a.ok(&["limits", "--proxy", &address, "--proxy-except", "example.org"]);
    let before = proxy.asked().len();
    a.refused(&["store", "test", &store], 5, "offline");
    a.ok(&["limits", "--proxy", "environment"]);
    assert_eq!(proxy.asked().len(), before, "what is excepted is asked directly");
    a.ok(&["store", "test", &store]);
    a.ok(&["limits", "--proxy", "off"]);
    assert!(a.ok(&["limits"])["proxy_address"].is_null());
    a.assert_discreet(&[PASSWORD]);
}
