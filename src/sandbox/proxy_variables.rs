//! The variables by which programs find their proxy. Pure.

/// Variables that name the proxy. Programs disagree about the case; some read only one of both.
const PROXY: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Variables that name the hosts without a proxy.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Servers that the command starts itself are in its own network.
const OWN_HOSTS: &str = "localhost,127.0.0.1,::1";

/// Returns the variables of a command whose proxy listens on this port of its loopback interface.
///
/// curl, git, cargo, npm, pip, and uv read the usual ones. Node itself reads them only if it is told to.
pub fn list_proxy_variables(port: u16) -> impl Iterator<Item = (&'static str, String)> {
    let proxy = PROXY.map(|name| (name, format!("http://127.0.0.1:{port}")));
    let direct = NO_PROXY.map(|name| (name, OWN_HOSTS.to_owned()));
    let node = ("NODE_USE_ENV_PROXY", "1".to_owned());
    proxy.into_iter().chain(direct).chain([node])
}
