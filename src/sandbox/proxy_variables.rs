//! The variables by which programs find their proxy. Pure.

/// Variables that name the proxy. Programs disagree about the case; some read only one of both.
const PROXY: [&str; 8] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    // Yarn 2 and newer reads only these.
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
];

/// Returns the variables of a command whose proxy listens on this port of its loopback interface.
///
/// curl, git, cargo, npm, pip, and uv read the usual ones. Node itself reads them only if it is told to.
pub fn list_proxy_variables(port: u16) -> impl Iterator<Item = (&'static str, String)> {
    let proxy = PROXY.map(|name| (name, format!("http://127.0.0.1:{port}")));
    let node = ("NODE_USE_ENV_PROXY", "1".to_owned());
    proxy.into_iter().chain([node])
}
