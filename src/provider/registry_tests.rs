//! Tests of [`super`]: addresses, keys, headers, and what is known about models.

use std::time::Duration;

use super::*;

fn refused(spec: &ProviderSpec) -> ProviderError {
    build(spec).err().expect("settings that cannot be used")
}

#[test]
fn unusable_settings_fail_without_leaking_secrets() {
    let good = ProviderSpec::new("work", ApiKind::OpenAi);
    assert_eq!(build(&good).unwrap().name(), "work");
    let bad_url = ProviderSpec {
        base_url: Some("ftp://x".into()),
        ..good.clone()
    };
    assert_eq!(
        refused(&bad_url).message,
        "base_url of provider work is neither http nor https"
    );
    let bad_key = ProviderSpec {
        api_key: Some("canary\nkey".to_owned().into()),
        ..good.clone()
    };
    let error = refused(&bad_key);
    assert!(error.fault == ProviderFault::Local && !format!("{error:?}").contains("canary"));
    let headers = BTreeMap::from([("bad name".to_owned(), "canary".to_owned().into())]);
    let error = refused(&ProviderSpec { headers, ..good });
    assert_eq!(error.message, "header bad name of provider work is not valid");
    let error = refused(&ProviderSpec::new("demo", ApiKind::Script));
    assert_eq!(error.message, "provider demo has no cassette");
}

#[test]
fn debug_output_of_a_spec_contains_no_secret() {
    let mut spec = ProviderSpec::new("work", ApiKind::OpenAi);
    spec.api_key = Some("canary".to_owned().into());
    spec.headers.insert("x".into(), "canary".to_owned().into());
    spec.proxy = Some(crate::config::ProxyAddress {
        url: "http://me:canary@proxy".to_owned().into(),
        set_by: "HTTPS_PROXY",
    });
    assert!(!format!("{spec:?}").contains("canary"));
}

#[test]
fn model_info_depends_on_the_address_and_the_settings() {
    let mut spec = ProviderSpec::new("work", ApiKind::OpenAi);
    assert_eq!(spec.model_info("made-up").price, None);
    spec.models.insert(
        "made-up".into(),
        ModelOverride {
            window: Some(9),
            ..Default::default()
        },
    );
    assert_eq!(spec.model_info("made-up").window, 9);
    spec.base_url = Some("http://localhost:11434/v1".into());
    assert_eq!(
        spec.model_info("made-up").price.map(|price| price.output),
        Some(0.0)
    );
}

#[test]
fn documents_need_a_model_and_an_api_that_accept_them() {
    let reads = |kind, model| ProviderSpec::new("work", kind).model_info(model).documents;
    for model in ["claude-sonnet-5-5", "claude-haiku-4-5-20251001"] {
        assert!(reads(ApiKind::Anthropic, model), "{model}");
    }
    assert!(reads(ApiKind::Gemini, "gemini-3.5-flash"));
    assert!(reads(ApiKind::Responses, "gpt-6.1-sol"));
    assert!(!reads(ApiKind::OpenAi, "gpt-6.1-sol"));
    assert!(!reads(ApiKind::Anthropic, "glm-5.2"));
    assert!(!reads(ApiKind::Responses, "o3-mini"));
}

#[test]
fn the_own_list_overrides_the_catalogue_and_the_user_overrides_both() {
    let listed = |input, output| ModelOverride {
        window: Some(300_000),
        price: Some(crate::domain::Price {
            input,
            output,
            ..Default::default()
        }),
        ..ModelOverride::default()
    };
    let facts = [
        ("gpt-6.1-sol", listed(2.0, 10.0)),
        ("gpt-6-luna", listed(9.0, 9.0)),
    ];
    let list = ModelList {
        facts: facts.map(|(name, facts)| (name.to_owned(), facts)).into(),
        ..ModelList::default()
    };
    let mut spec = ProviderSpec {
        list: Some(Arc::new(list)),
        ..ProviderSpec::new("openai", ApiKind::Responses)
    };
    let sol = spec.model_info("gpt-6.1-sol");
    assert_eq!((sol.window, sol.max_output), (300_000, 128_000));
    // The list has no prices for long prompts, but the same base price.
    assert_eq!(
        sol.price.unwrap().tiers,
        lookup_model("gpt-6.1-sol").price.unwrap().tiers
    );
    assert_eq!(spec.model_info("gpt-6-luna").price.unwrap().tiers, [None; 2]);
    let user = ModelOverride {
        window: Some(9),
        ..ModelOverride::default()
    };
    spec.models.insert("gpt-6.1-sol".to_owned(), user);
    assert_eq!(spec.model_info("gpt-6.1-sol").window, 9);
}

#[test]
fn reasoning_can_be_switched_off_where_the_vendor_has_a_switch() {
    for (host, model, wanted, sent) in [
        ("api.deepseek.com", "deepseek-v4-pro", Effort::None, Effort::None),
        (
            "api.deepseek.com",
            "deepseek-v4-pro",
            Effort::Minimal,
            Effort::Low,
        ),
        ("api.z.ai", "glm-5.2", Effort::None, Effort::None),
        // It always reasons.
        ("api.moonshot.ai", "kimi-k3", Effort::None, Effort::Low),
        ("llm.example.com", "deepseek-v4-pro", Effort::None, Effort::Low),
    ] {
        let spec = ProviderSpec {
            base_url: Some(format!("https://{host}/v1")),
            ..ProviderSpec::new("work", ApiKind::OpenAi)
        };
        assert_eq!(
            spec.nearest_effort(model, wanted),
            Some(sent),
            "{host} {model} {wanted:?}"
        );
    }
    let relay = ProviderSpec {
        base_url: Some("https://api.z.ai/api/anthropic".to_owned()),
        ..ProviderSpec::new("work", ApiKind::Anthropic)
    };
    assert_eq!(relay.nearest_effort("glm-5.2", Effort::None), Some(Effort::None));
}

#[test]
fn a_host_has_its_own_prices_under_any_name() {
    let price = |name: &str, url: Option<&str>| {
        let spec = ProviderSpec {
            base_url: url.map(str::to_owned),
            ..ProviderSpec::new(name, ApiKind::OpenAi)
        };
        spec.model_info("openai/gpt-oss-120b")
            .price
            .map(|price| price.output)
    };
    let groq = Some("https://api.groq.com/openai/v1");
    assert_eq!(price("fast", groq), Some(0.6));
    assert_eq!(price("groq", Some("https://proxy.example.com/v1")), Some(0.6));
    assert_eq!(price("work", Some("https://llm.example.com/v1")), None);
}

#[test]
fn a_vendor_model_keeps_its_price_at_every_address() {
    let claude = lookup_model("claude-sonnet-5").price;
    for (kind, address, free) in [
        (ApiKind::Anthropic, "https://api.anthropic.com", false),
        (ApiKind::Anthropic, "https://llm.example.com", false),
        (ApiKind::Anthropic, "http://127.0.0.1:4000", true),
        (ApiKind::OpenAi, "http://localhost:4000/v1", true),
        (ApiKind::OpenAi, "http://10.1.2.3:4000/v1", true),
        (ApiKind::Responses, "http://192.168.1.5/v1", true),
        (ApiKind::OpenAi, "http://litellm:4000/v1", true),
        (ApiKind::OpenAi, "http://host.docker.internal:4000/v1", true),
        (ApiKind::OpenAi, "http://host.containers.internal:4000/v1", true),
        (ApiKind::OpenAi, "http://[::1]:4000/v1", true),
        (ApiKind::OpenAi, "http://[::ffff:127.0.0.1]:4000/v1", true),
        (ApiKind::OpenAi, "http://[::ffff:10.0.0.1]:4000/v1", true),
        (ApiKind::OpenAi, "http://[fd00::1]:4000/v1", true),
    ] {
        let spec = ProviderSpec {
            base_url: Some(address.to_owned()),
            ..ProviderSpec::new("work", kind)
        };
        let found = |model| (spec.model_info(model).price, spec.price_source(model));
        assert_eq!(found("claude-sonnet-5"), (claude, PriceSource::List), "{address}");
        assert_eq!(
            found("claude-sonnet-99"),
            (None, PriceSource::Unknown),
            "{address}"
        );
        for model in ["made-up", "qwen3:latest", "gpt-oss:20b"] {
            let local = if free {
                (Some(FREE), PriceSource::Free)
            } else {
                (None, PriceSource::Unknown)
            };
            assert_eq!(found(model), local, "{model} at {address}");
        }
    }
}

#[test]
fn model_naming_follows_from_kind_and_address() {
    for (name, kind, address, naming) in [
        (
            "anthropic",
            ApiKind::Anthropic,
            None,
            ModelNaming::Vendor(&["claude-"]),
        ),
        (
            "anthropic",
            ApiKind::Anthropic,
            Some("https://llm.example.com"),
            ModelNaming::Gateway,
        ),
        (
            "ollama",
            ApiKind::Anthropic,
            Some("http://127.0.0.1:11434"),
            ModelNaming::Free,
        ),
        (
            "openrouter",
            ApiKind::OpenAi,
            Some("https://openrouter.ai/api/v1"),
            ModelNaming::Free,
        ),
        (
            "work",
            ApiKind::OpenAi,
            Some("https://llm.example.com/v1"),
            ModelNaming::Free,
        ),
        ("demo", ApiKind::Script, None, ModelNaming::Free),
    ] {
        let base_url = address.map(str::to_owned);
        let spec = ProviderSpec {
            base_url,
            ..ProviderSpec::new(name, kind)
        };
        assert_eq!(spec.model_naming(), naming, "{name} {address:?}");
    }
}

#[test]
fn default_limits_depend_on_host_and_reasoning() {
    let seconds = |local, thinks, silent| {
        let limits = CallLimits::default().for_call(local, thinks, silent);
        [limits.first_event, limits.gap].map(|limit| limit.as_secs())
    };
    assert_eq!(seconds(false, false, false), [60, 90]);
    assert_eq!(seconds(true, false, false), [300, 90]);
    assert_eq!(seconds(false, true, false), [300, 90]);
    assert_eq!(seconds(false, true, true), [300, 300]);
    let set = CallLimits {
        gap: Some(Duration::from_secs(1)),
        ..Default::default()
    };
    assert_eq!(set.for_call(true, true, true).gap.as_secs(), 1);
}

#[tokio::test]
async fn call_slots_are_bounded_and_returned_on_drop() {
    let slots = CallSlots::new(1);
    let permit = slots.try_acquire().unwrap();
    assert!(slots.try_acquire().is_none());
    let mut waiting = Box::pin(slots.acquire());
    assert!(futures::poll!(&mut waiting).is_pending());
    drop(permit);
    drop(waiting.await);
    assert_eq!(slots.available_permits(), 1);
}

#[test]
fn azure_gets_a_key_in_its_own_header_and_a_token_as_bearer() {
    let headers = |kind, base: &str, key: &str| {
        let spec = ProviderSpec {
            base_url: Some(base.to_owned()),
            api_key: Some(key.to_owned().into()),
            ..ProviderSpec::new("work", kind)
        };
        let headers = spec.build_headers().unwrap();
        ["api-key", "authorization"].map(|name| {
            let value = headers.get(name).map(|value| value.to_str().unwrap());
            value.map(str::to_owned)
        })
    };
    let azure = "https://shop.openai.azure.com/openai/v1";
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJhIn0.c2ln";
    let bearer = |key: &str| Some(format!("Bearer {key}"));
    for kind in [ApiKind::OpenAi, ApiKind::Responses] {
        assert_eq!(headers(kind, azure, "k\n"), [Some("k".to_owned()), None]);
        assert_eq!(headers(kind, azure, token), [None, bearer(token)]);
        assert_eq!(
            headers(kind, "https://api.openai.com/v1", "k"),
            [None, bearer("k")]
        );
    }
}

#[test]
fn writes_into_an_hour_of_cache_cost_twice_the_input() {
    let spec = |cache_ttl| ProviderSpec {
        cache_ttl,
        ..ProviderSpec::new("anthropic", ApiKind::Anthropic)
    };
    let usual = spec(CacheTtl::default())
        .model_info("claude-sonnet-5")
        .price
        .unwrap();
    let hour = spec(CacheTtl::OneHour)
        .model_info("claude-sonnet-5")
        .price
        .unwrap();
    assert_eq!(usual.cache_write, 1.25 * usual.input);
    assert_eq!(hour.cache_write, 2.0 * usual.input);
    assert_eq!(
        (hour.input, hour.output, hour.cache_read),
        (usual.input, usual.output, usual.cache_read)
    );
    // What costs nothing stays free.
    let local = ProviderSpec {
        base_url: Some("http://localhost:11434".to_owned()),
        ..spec(CacheTtl::OneHour)
    };
    assert_eq!(local.model_info("made-up").price, Some(FREE));
}

#[test]
fn the_own_list_overrides_the_catalogue_about_retirements() {
    let list = ModelList {
        retirements: [("gpt-6-luna".to_owned(), "2031-05-06".to_owned())].into(),
        ..ModelList::default()
    };
    let mut spec = ProviderSpec {
        list: Some(Arc::new(list)),
        ..ProviderSpec::new("openai", ApiKind::Responses)
    };
    let end = spec.retirement("gpt-6-luna").unwrap();
    assert_eq!((end.date, end.day), ("2031-05-06", 22_405));
    assert!(spec.retirement("made-up").is_none());
    // At another host the vendor's dates say nothing.
    spec.base_url = Some("https://llm.example.com/v1".to_owned());
    spec.name = "work".to_owned();
    assert!(spec.retirement("gpt-6-luna").is_none());
}
