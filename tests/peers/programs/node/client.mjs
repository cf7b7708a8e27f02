// Buy with the official client again and again, until standard input ends.
// Each line of it is a JSON object: `url`, `key`, `buy`, a list of `[path, body]`, and perhaps `ahead`, seconds by which the
// computer's clock is wrong. The answer is one line of JSON too: what came of each purchase, or the error that ended them.
// SIGINT cancels the purchase under way.
import { createInterface } from "node:readline";
import { ExactEvmScheme } from "@x402/evm";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const rightTime = Date.now;
let canceling = new AbortController();
process.on("SIGINT", () => canceling.abort());

async function buy(asked) {
  canceling = new AbortController();
  Date.now = () => rightTime() + 1000 * (asked.ahead ?? 0);
  const client = new ExactEvmScheme(privateKeyToAccount(asked.key));
  const paidFetch = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: "eip155:8453", client }] });
  const bought = [];
  for (const [path, body] of asked.buy) {
    const response = await paidFetch(asked.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: canceling.signal,
    });
    const offer = response.headers.get("PAYMENT-REQUIRED");
    const receipt = response.headers.get("PAYMENT-RESPONSE");
    bought.push({
      status: response.status,
      body: await response.json(),
      receipt: receipt && decodePaymentResponseHeader(receipt),
      error: offer && decodePaymentRequiredHeader(offer).error,
    });
  }
  return bought;
}

for await (const line of createInterface({ input: process.stdin })) {
  const bought = await buy(JSON.parse(line)).catch((error) => [{ raised: error.name, said: error.message }]);
  console.log(JSON.stringify(bought));
}
