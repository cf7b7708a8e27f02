// Buy with the official client again and again, until standard input ends.
// Each line of it is a JSON object: `url`, `key` and `buy`, a list of `[path, body]`. The answer is one line of JSON too.
import { createInterface } from "node:readline";
import { ExactEvmScheme } from "@x402/evm";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

async function buy(asked) {
  const client = new ExactEvmScheme(privateKeyToAccount(asked.key));
  const paidFetch = wrapFetchWithPaymentFromConfig(fetch, { schemes: [{ network: "eip155:8453", client }] });
  const bought = [];
  for (const [path, body] of asked.buy) {
    const response = await paidFetch(asked.url + path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
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
  console.log(JSON.stringify(await buy(JSON.parse(line))));
}
