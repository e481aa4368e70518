"""A stand-in for the models of others, on loopback: it records which tools each request shows it, calls some of them one after the other, and then says
a word.

It speaks what four clients speak: Anthropic Messages, OpenAI Responses, OpenAI Chat Completions and Gemini. Only the Python standard library is
used. What it was shown is in `StandIn.rounds`: the schema of each tool, by name, for each request.
"""

import http.server
import json
import threading
import time

# Longer than the gateway gathers changes, and than a client lists.
PAUSE = 3


def events(*pairs):
    """An event stream, as bytes."""
    lines = []
    for name, data in pairs:
        lines.append((f"event: {name}\n" if name else "") + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    return "".join(lines).encode()


class Anthropic:
    """POST /v1/messages"""

    def fits(self, path):
        return path.endswith("/messages")

    def tools(self, body):
        return {tool["name"]: tool.get("input_schema") for tool in body.get("tools", [])}

    def results(self, body):
        parts = [part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]]
        return [json.dumps(part) for part in parts if part.get("type") == "tool_result"]

    def reply(self, body, call, number):
        start = {"type": "message_start", "message": {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": body["model"],
            "content": [], "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}}
        if call:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": call, "input": {}}
            delta, reason = {"type": "input_json_delta", "partial_json": "{}"}, "tool_use"
        else:
            block, delta, reason = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}, "end_turn"
        if not body.get("stream"):
            content = [{**block, "text": "done"}] if not call else [block]
            return {**start["message"], "content": content, "stop_reason": reason}
        return events(
            ("message_start", start),
            ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
            ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
            ("content_block_stop", {"type": "content_block_stop", "index": 0}),
            ("message_delta", {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1}}),
            ("message_stop", {"type": "message_stop"}),
        )


class Responses:
    """POST /v1/responses"""

    def fits(self, path):
        return path.endswith("/responses")

    def tools(self, body):
        found = {}
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                found.update({f"{tool['name']}{inner['name']}": inner.get("parameters") for inner in tool.get("tools", [])})
            else:
                found[tool.get("name", tool.get("type"))] = tool.get("parameters")
        return found

    def results(self, body):
        return [json.dumps(item) for item in body["input"] if item.get("type") == "function_call_output"]

    def reply(self, body, call, number):
        if call:
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call, "arguments": "{}", "status": "completed"}
            for tool in body.get("tools", []):
                if tool.get("type") == "namespace" and call.startswith(tool["name"]):
                    item.update(namespace=tool["name"], name=call[len(tool["name"]):])
        else:
            content = [{"type": "output_text", "text": "done", "annotations": []}]
            item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
        usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
        response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
        return events(
            ("response.created", {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": response}),
        )


class Chat:
    """POST /v1/chat/completions"""

    def fits(self, path):
        return path.endswith("/chat/completions")

    def tools(self, body):
        return {tool["function"]["name"]: tool["function"].get("parameters") for tool in body.get("tools", [])}

    def results(self, body):
        return [json.dumps(message) for message in body["messages"] if message["role"] == "tool"]

    def reply(self, body, call, number):
        delta = {"role": "assistant", "content": "done"}
        if call:
            function = {"name": call, "arguments": "{}"}
            delta = {"role": "assistant", "tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}
        base = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return events(
            (None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
            (None, {**base, "choices": [end], "usage": usage}),
            (None, "[DONE]"),
        )


class Gemini:
    """POST /v1beta/models/NAME:streamGenerateContent"""

    def fits(self, path):
        return path.endswith("GenerateContent") or path.endswith("generateContent")

    def tools(self, body):
        declared = [one for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        return {one["name"]: one.get("parametersJsonSchema", one.get("parameters")) for one in declared}

    def results(self, body):
        parts = [part for content in body["contents"] for part in content.get("parts", [])]
        return [json.dumps(part) for part in parts if "functionResponse" in part]

    def reply(self, body, call, number):
        part = {"functionCall": {"name": call, "args": {}}} if call else {"text": "done"}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return events((None, {"candidates": [candidate], "usageMetadata": usage}))


DIALECTS = [Anthropic(), Responses(), Chat(), Gemini()]


class StandIn:
    """Listens until it is closed. `calls`: for each call, what tells the name of its tool. `at_end`: what to do before the last word, while the client is
    still there."""

    def __init__(self, calls, at_end=lambda: None):
        self.calls, self.at_end, self.rounds, self.results, self.answers, self.lock = calls, at_end, [], [], 0, threading.Lock()
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.answer({"data": [], "models": []})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                path = self.path.split("?")[0]
                dialect = next((dialect for dialect in DIALECTS if dialect.fits(path)), None)
                if dialect is None:
                    return self.answer({"totalTokens": 1, "input_tokens": 1})
                self.answer(dialect.reply(body, *stand_in.heard(dialect, body)))

            def answer(self, reply):
                kind = "text/event-stream" if isinstance(reply, bytes) else "application/json"
                reply = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def heard(self, dialect, body):
        """Notes what a request shows; tells which tool to call, and the number of this answer."""
        tools, results = dialect.tools(body), dialect.results(body)
        # Clients also ask for titles and summaries, without tools of servers.
        is_ours = any(self.calls[0](name) for name in tools)
        with self.lock:
            if is_ours:
                self.rounds.append(tools)
            self.results += results
            self.answers += 1
            number = self.answers
        if not is_ours:
            return None, number
        # What the first call changed is told a moment after its result.
        if len(results) == 1:
            time.sleep(PAUSE)
        if len(results) >= len(self.calls):
            self.at_end()
            return None, number
        return next((name for name in tools if self.calls[len(results)](name)), None), number

    def close(self):
        self.server.shutdown()
        self.server.server_close()
