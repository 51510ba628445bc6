//! The proxies of `[network]`, for HTTP clients that are not bound to one provider.

use secrecy::ExposeSecret;
use url::Url;

use super::NetworkSettings;

impl NetworkSettings {
    /// Returns the proxy through which a URL is requested.
    pub fn find_proxy(&self, url: &Url) -> Option<&str> {
        let proxy = match url.scheme() {
            "https" => &self.https_proxy,
            _ => &self.http_proxy,
        };
        proxy.as_ref().map(ExposeSecret::expose_secret)
    }

    /// Returns the hosts of all proxies.
    pub fn proxy_hosts(&self) -> Vec<String> {
        let proxies = [&self.https_proxy, &self.http_proxy];
        let urls = proxies.into_iter().flatten();
        urls.filter_map(|proxy| Some(Url::parse(proxy.expose_secret()).ok()?.host_str()?.to_owned()))
            .collect()
    }

    /// Adds the proxies to a client. This machine is always reached directly.
    ///
    /// # Errors
    /// Fails if a proxy's address is unusable. The error may contain it: remove the URL before you show it.
    pub fn add_proxies(
        &self,
        mut builder: reqwest::ClientBuilder,
    ) -> reqwest::Result<reqwest::ClientBuilder> {
        // To a proxy, these names mean the proxy itself.
        let without = format!(
            "localhost,127.0.0.0/8,::1,{}",
            self.no_proxy.as_deref().unwrap_or_default()
        );
        let without = || reqwest::NoProxy::from_string(&without);
        // The configuration has already read the environment and takes precedence.
        builder = builder.no_proxy();
        if let Some(proxy) = &self.https_proxy {
            let proxy = reqwest::Proxy::https(proxy.expose_secret())?;
            builder = builder.proxy(proxy.no_proxy(without()));
        }
        if let Some(proxy) = &self.http_proxy {
            let proxy = reqwest::Proxy::http(proxy.expose_secret())?;
            builder = builder.proxy(proxy.no_proxy(without()));
        }
        Ok(builder)
    }
}
