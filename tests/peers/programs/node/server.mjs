// The market-data API behind the official express middleware, with the official facilitator in the same process: once
// for each of KINDS, each at a port of its own. Argument: the folder with the answers. Besides: `GET /chain` says what
// happened on the chain, `POST /chain` changes it. Ends when standard input is closed.
import { readFileSync } from "node:fs";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme as FacilitatorScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmScheme as ServerScheme } from "@x402/evm/exact/server";
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { Chain, FACTORY } from "./chain.mjs";

// In words: with the offer in the body; settled before the work.
const KINDS = ["", "body", "upfront", "body upfront"];
const OFFER = "PAYMENT-REQUIRED";
const NETWORK = "eip155:8453";
const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
// Millionths of a dollar, and whether that is for one token.
const PRICES = {
  "token-signals": [50_000, true],
  "token-prices": [30_000, true],
  "signal-history": [50_000, true],
  "token-win-rate": [30_000, true],
  "token-avg-prices": [20_000, true],
  "top-performers": [60_000, false],
  "aggregate-metrics": [60_000, false],
};
const STATUS = { NOPE: 404, BROKEN: 502 };
const golden = (name) => JSON.parse(readFileSync(`${process.argv[2]}/${name}.json`, "utf8"));

const chain = new Chain();
const calls = { verify: 0, settle: 0 };
const bound = Object.fromEntries(
  ["getCode", "readContract", "sendTransaction", "writeContract", "waitForTransactionReceipt"].map((name) => [
    name,
    (args) => chain[name](args),
  ]),
);
const signer = toFacilitatorEvmSigner({ address: chain.address, ...bound });
// Smart contract wallets are deployed only by contracts that are named: by default none.
const [plain, deploying] = [[], [FACTORY]].map((eip6492AllowedFactories) =>
  new x402Facilitator().register(NETWORK, new FacilitatorScheme(signer, { eip6492AllowedFactories })),
);
const facilitator = () => (chain.deploys ? deploying : plain);
const counted = {
  getSupported: async () => facilitator().getSupported(),
  verify: (...args) => (calls.verify++, facilitator().verify(...args)),
  settle: (...args) => (calls.settle++, facilitator().settle(...args)),
};

const price = (name) => (context) => {
  const [amount, each] = PRICES[name];
  const tokens = context.adapter.getBody()?.tokens;
  return `$${((each ? (tokens?.length ?? 1) : 1) * amount) / 1_000_000}`;
};
const routes = (flow) =>
  Object.fromEntries(
    Object.keys(PRICES).map((name) => [
      `POST /v1/${name}`,
      {
        accepts: {
          scheme: "exact",
          price: price(name),
          network: NETWORK,
          payTo: PAY_TO,
          maxTimeoutSeconds: 60,
          ...(flow && { extra: { paymentFlow: flow } }),
        },
        description: name,
        mimeType: "application/json",
      },
    ]),
  );
const state = () => ({ balances: chain.balances, transfers: chain.transfers, ...calls });

// The package writes the offer into the header, always: here the app moves it.
function inBody(request, response, next) {
  const json = response.json.bind(response);
  response.json = (body) => {
    const offer = response.getHeader(OFFER);
    response.removeHeader(OFFER);
    return json(offer ? decodePaymentRequiredHeader(offer) : body);
  };
  next();
}

function sell({ body, params }, response) {
  const wanted = (body.tokens ?? []).map(({ identifier }) => identifier);
  const status = wanted.map((identifier) => STATUS[identifier]).find(Boolean);
  const found = golden(status ? `error_${status}` : params.name.replaceAll("-", "_"));
  if (!status && wanted.length > 0) {
    const [first] = found.data.results;
    const symbol = "symbol" in first ? "symbol" : "tokenSymbol";
    found.data.results = wanted.map((identifier) => ({ ...first, [symbol]: identifier }));
  }
  response.status(status ?? 200).json(found);
}

async function started(words) {
  const app = express();
  app.use(express.json());
  app.get("/chain", (request, response) => response.json(state()));
  app.post("/chain", ({ body }, response) => {
    for (const [who, amount] of Object.entries(body.balances ?? {})) chain.balances[who.toLowerCase()] = amount;
    for (const name of ["revert", "pending", "deploys"]) chain[name] = body[name] ?? chain[name];
    if ("wallets" in body) chain.wallets = body.wallets;
    response.json(state());
  });
  if (words.includes("body")) app.use(inBody);
  const resources = new x402ResourceServer(counted).register(NETWORK, new ServerScheme());
  app.use(paymentMiddleware(routes(words.includes("upfront") && "upfront"), resources));
  app.post("/v1/:name", sell);
  return new Promise((resolve) => {
    const listening = app.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${listening.address().port}`));
  });
}

const urls = {};
for (const kind of KINDS) urls[kind] = await started(kind.split(" "));
console.log(JSON.stringify(urls));
process.stdin.resume().on("end", () => process.exit(0));
