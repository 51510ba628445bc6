//! Renders the parts of an answer as events of each API. `responses`, `gemini`, and `ollama` do the
//! same for those APIs.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Api;
use super::reply::{Frame, Tokens, split};

/// The frames so far, and the state that later frames depend on.
pub(super) struct Renderer {
    pub(super) api: Api,
    pub(super) frames: Vec<Frame>,
    /// The number of blocks so far; in the Responses API, of items.
    pub(super) index: usize,
    pub(super) tools: usize,
    searches: usize,
    pub(super) tokens: Tokens,
}

impl Renderer {
    pub(super) fn new(api: Api, tokens: Tokens) -> Self {
        Self {
            api,
            frames: Vec::new(),
            index: 0,
            tools: 0,
            searches: 0,
            tokens,
        }
    }

    pub(super) fn event(&mut self, data: &Value) {
        let bytes = self.sse(data);
        self.frames.push(Frame::Event { bytes, times: 1 });
    }

    pub(super) fn sse(&self, data: &Value) -> Bytes {
        match self.api {
            Api::Anthropic | Api::Responses => {
                let name = data["type"].as_str().unwrap_or("message");
                format!("event: {name}\ndata: {data}\n\n").into()
            }
            Api::OpenAi | Api::Gemini => format!("data: {data}\n\n").into(),
            Api::Ollama => format!("{data}\n").into(),
        }
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Value {
        json!({
            "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": "mock-model",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
    }

    pub(super) fn start(&mut self) {
        match self.api {
            Api::Anthropic => {
                let message = json!({
                    "type": "message_start",
                    "message": {
                        "id": "msg_mock", "type": "message", "role": "assistant", "model": "mock-model",
                        "content": [], "stop_reason": null, "stop_sequence": null,
                        "usage": {
                            "input_tokens": self.tokens.input,
                            "cache_creation_input_tokens": self.tokens.cache_write,
                            "cache_read_input_tokens": self.tokens.cache_read,
                            "output_tokens": 1,
                        },
                    },
                });
                self.event(&message);
            }
            Api::OpenAi => self.event(&self.chunk(json!({"role": "assistant", "content": ""}), None)),
            Api::Responses => self.begin_response(),
            Api::Gemini => self.event(&self.candidate(json!([{"text": ""}]))),
            Api::Ollama => self.ollama_text(""),
        }
    }

    fn block(&mut self, start: Value, deltas: Vec<Value>) {
        let index = self.index;
        self.index += 1;
        self.event(&json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            self.event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        self.event(&json!({"type": "content_block_stop", "index": index}));
    }

    pub(super) fn text(&mut self, pieces: &[&str]) {
        match self.api {
            Api::Anthropic => {
                let deltas = pieces
                    .iter()
                    .map(|text| json!({"type": "text_delta", "text": text}))
                    .collect();
                self.block(json!({"type": "text", "text": ""}), deltas);
            }
            Api::OpenAi => {
                for text in pieces {
                    self.event(&self.chunk(json!({"content": text}), None));
                }
            }
            Api::Responses => self.item_text(pieces),
            Api::Gemini => {
                for text in pieces {
                    self.event(&self.candidate(json!([{"text": text}])));
                }
            }
            Api::Ollama => pieces.iter().for_each(|text| self.ollama_text(text)),
        }
    }

    pub(super) fn flood(&mut self, total: usize, chunk: usize) {
        let text = "x".repeat(chunk);
        let times = total.div_ceil(chunk.max(1));
        match self.api {
            Api::Anthropic => {
                let index = self.index;
                self.index += 1;
                let start = json!({"type": "text", "text": ""});
                self.event(&json!({"type": "content_block_start", "index": index, "content_block": start}));
                let delta = json!({"type": "text_delta", "text": text});
                let bytes = self.sse(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
                self.frames.push(Frame::Event { bytes, times });
                self.event(&json!({"type": "content_block_stop", "index": index}));
            }
            Api::OpenAi => {
                let bytes = self.sse(&self.chunk(json!({"content": text}), None));
                self.frames.push(Frame::Event { bytes, times });
            }
            Api::Responses => self.item_flood(&text, times),
            Api::Gemini => {
                let bytes = self.sse(&self.candidate(json!([{"text": text}])));
                self.frames.push(Frame::Event { bytes, times });
            }
            Api::Ollama => {
                let bytes = self.sse(&self.line(json!({"role": "assistant", "content": text})));
                self.frames.push(Frame::Event { bytes, times });
            }
        }
    }

    pub(super) fn reasoning(&mut self, pieces: &[&str], signature: Option<&str>) {
        match self.api {
            Api::Anthropic => {
                let mut deltas: Vec<Value> = pieces
                    .iter()
                    .map(|text| json!({"type": "thinking_delta", "thinking": text}))
                    .collect();
                deltas.extend(signature.map(|s| json!({"type": "signature_delta", "signature": s})));
                self.block(
                    json!({"type": "thinking", "thinking": "", "signature": ""}),
                    deltas,
                );
            }
            Api::OpenAi => {
                for text in pieces {
                    self.event(&self.chunk(json!({"reasoning_content": text}), None));
                }
            }
            Api::Responses => self.item_reasoning(pieces, signature),
            Api::Gemini => {
                for text in pieces {
                    self.event(&self.candidate(json!([{"text": text, "thought": true}])));
                }
            }
            Api::Ollama => {
                for text in pieces {
                    self.event(&self.line(json!({"role": "assistant", "content": "", "thinking": text})));
                }
            }
        }
    }

    pub(super) fn redacted(&mut self, data: &str) {
        match self.api {
            Api::Anthropic => self.block(json!({"type": "redacted_thinking", "data": data}), Vec::new()),
            Api::OpenAi | Api::Gemini | Api::Ollama => {}
            Api::Responses => self.item_reasoning(&[], Some(data)),
        }
    }

    /// Renders a search of the provider. Chat Completions and Ollama have none.
    pub(super) fn search(&mut self, pages: &[(String, String)]) {
        self.searches += 1;
        match self.api {
            Api::Anthropic => {
                let id = format!("srvtoolu_mock{}", self.searches);
                let query = json!({"type": "input_json_delta", "partial_json": "{\"query\":\"mock\"}"});
                self.block(
                    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}),
                    vec![query],
                );
                let found = |(url, title): &(String, String)| {
                    json!({"type": "web_search_result", "url": url,
                    "title": title, "encrypted_content": "x", "page_age": null})
                };
                let content: Vec<Value> = pages.iter().map(found).collect();
                self.block(
                    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": content}),
                    Vec::new(),
                );
            }
            Api::Responses => self.item_search(pages),
            Api::Gemini => {
                let found = |(uri, title): &(String, String)| json!({"web": {"uri": uri, "title": title}});
                let chunks: Vec<Value> = pages.iter().map(found).collect();
                let mut event = self.candidate(json!([{"text": ""}]));
                event["candidates"][0]["groundingMetadata"] =
                    json!({"webSearchQueries": ["mock"], "groundingChunks": chunks});
                self.event(&event);
            }
            Api::OpenAi | Api::Ollama => {}
        }
    }

    pub(super) fn tool(&mut self, name: &str, input: &str, piece: usize) {
        let pieces = split(input, Some(piece));
        let number = self.tools;
        self.tools += 1;
        match self.api {
            Api::Anthropic => {
                let deltas = pieces
                    .iter()
                    .map(|json| json!({"type": "input_json_delta", "partial_json": json}))
                    .collect();
                let id = format!("toolu_mock{number}");
                self.block(
                    json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                    deltas,
                );
            }
            Api::OpenAi => {
                let id = format!("call_mock{number}");
                let start = json!({"tool_calls": [{"index": number, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}}]});
                self.event(&self.chunk(start, None));
                for json in pieces {
                    let delta = json!({"tool_calls": [{"index": number, "function": {"arguments": json}}]});
                    self.event(&self.chunk(delta, None));
                }
            }
            Api::Responses => self.item_call(&format!("call_mock{number}"), name, &pieces),
            Api::Gemini => self.gemini_call(number, name, input),
            Api::Ollama => self.ollama_call(number, name, input),
        }
    }

    pub(super) fn custom(&mut self, name: &str, text: &str) {
        if self.api != Api::Responses {
            // No other API has custom tools.
            return self.tool(name, &json!({"input": text}).to_string(), usize::MAX);
        }
        let number = self.tools;
        self.tools += 1;
        self.item_custom(&format!("call_mock{number}"), name, &split(text, Some(7)));
    }

    pub(super) fn ping(&mut self) {
        match self.api {
            Api::Anthropic => self.event(&json!({"type": "ping"})),
            Api::Responses => self.event(&json!({"type": "keepalive"})),
            // It has no pings; an empty line is the nearest.
            Api::Ollama => {
                let bytes = Bytes::from_static(b"\n");
                self.frames.push(Frame::Event { bytes, times: 1 });
            }
            Api::OpenAi | Api::Gemini => {
                let bytes = Bytes::from_static(b": keep-alive\n\n");
                self.frames.push(Frame::Event { bytes, times: 1 });
            }
        }
    }

    pub(super) fn error(&mut self, kind: &str, message: &str) {
        let mut error = json!({"type": kind, "code": kind, "message": message});
        if self.api == Api::Responses {
            error["type"] = json!("error");
            return self.event(&error);
        }
        if self.api == Api::Ollama {
            // Its errors are bare texts.
            return self.event(&json!({"error": message}));
        }
        self.event(&json!({"type": "error", "error": error}));
    }

    pub(super) fn stop(&mut self, reason: &str, cost: Option<f64>) {
        let tokens = self.tokens;
        match self.api {
            Api::Anthropic => {
                self.event(&json!({
                    "type": "message_delta",
                    "delta": {"stop_reason": reason, "stop_sequence": null},
                    "usage": {"output_tokens": tokens.output,
                        "server_tool_use": {"web_search_requests": self.searches}},
                }));
                self.event(&json!({"type": "message_stop"}));
            }
            Api::OpenAi => {
                let finish = match reason {
                    "end_turn" => "stop",
                    "tool_use" => "tool_calls",
                    "max_tokens" => "length",
                    "refusal" => "content_filter",
                    other => other,
                };
                self.event(&self.chunk(json!({}), Some(finish)));
                let mut usage = json!({
                    "prompt_tokens": tokens.input + tokens.cache_read + tokens.cache_write,
                    "completion_tokens": tokens.output,
                    "total_tokens": tokens.input + tokens.cache_read + tokens.cache_write + tokens.output,
                    "prompt_tokens_details": {
                        "cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write,
                    },
                });
                if let Some(cost) = cost {
                    usage["cost"] = json!(cost);
                }
                let mut last = self.chunk(json!({}), None);
                last["choices"] = json!([]);
                last["usage"] = usage;
                self.event(&last);
                let bytes = Bytes::from_static(b"data: [DONE]\n\n");
                self.frames.push(Frame::Event { bytes, times: 1 });
            }
            Api::Responses => self.end_response(reason),
            Api::Gemini => self.end_candidate(reason),
            Api::Ollama => self.end_lines(reason),
        }
    }
}
