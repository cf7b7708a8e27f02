// USDC on Base as far as the official facilitator looks at it: balances, used nonces, transfers. No network.
// The facilitator classes check signatures themselves; this token checks them again when it is asked to move money.
// Smart contract wallets are those on the chain of a mock server: its node is asked for their code and whether a
// signature is valid, and its control API deploys them.
import {
  concat,
  decodeAbiParameters,
  decodeFunctionData,
  encodeAbiParameters,
  encodeErrorResult,
  encodeFunctionData,
  getAddress,
  hashTypedData,
  keccak256,
  pad,
  parseAbi,
  recoverTypedDataAddress,
  slice,
  toFunctionSelector,
  toHex,
} from "viem";

export const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
// Where the chain of a mock server has the contract that deploys wallets.
export const FACTORY = getAddress(slice(keccak256(toHex("mock wallet factory")), 12));
const domain = { name: "USD Coin", version: "2", chainId: 8453, verifyingContract: USDC };
const types = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
};
const SELECTORS = Object.fromEntries(
  ["balanceOf(address)", "name()", "version()", "authorizationState(address,bytes32)"].map((signature) => [
    toFunctionSelector(signature),
    signature.split("(")[0],
  ]),
);
const TRANSFER = parseAbi([
  "function transferWithAuthorization(address, address, uint256, uint256, uint256, bytes32, bytes)",
]);
const WALLET = parseAbi(["function isValidSignature(bytes32, bytes) view returns (bytes4)"]);
const REASON = parseAbi(["error Error(string)"]);
const VALID = toFunctionSelector("isValidSignature(bytes32,bytes)");
const encoded = (type, value) => ({ success: true, returnData: encodeAbiParameters([{ type }], [value]) });
const refused = (reason) => Object.assign(new Error(`execution reverted: ${reason}`), { reason });

export class Chain {
  address = "0x00000000000000000000000000000000000fAc17";
  balances = {};
  transfers = [];
  revert = null;
  pending = 0;
  wallets = null; // the URL of the mock server whose smart contract wallets there are
  deploys = false; // whether the facilitator deploys them
  #deployments = new Set();
  #used = new Set();

  async getCode({ address }) {
    if (address.toLowerCase() === USDC.toLowerCase()) return "0x60";
    return this.wallets ? this.#node("eth_getCode", address) : undefined;
  }

  async #node(method, ...params) {
    const asked = { jsonrpc: "2.0", id: 1, method, params: [...params, "latest"] };
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(`${this.wallets}/rpc`, { method: "POST", headers, body: JSON.stringify(asked) });
    const { result, error } = await response.json();
    if (error) throw refused(error.message);
    return result;
  }

  async #isValid(address, digest, signature) {
    const data = encodeFunctionData({ abi: WALLET, args: [digest, signature] });
    return slice(await this.#node("eth_call", { to: address, data }), 0, 4);
  }

  // The wallet that a call of the factory, `createAccount(owner, salt)`, deploys.
  async #madeBy(call, deploy = false) {
    const [owner, salt] = decodeAbiParameters([{ type: "address" }, { type: "uint256" }], slice(call, 4));
    const url = `${this.wallets}/_mock/payments/wallets/${owner}`;
    const headers = { "Content-Type": "application/json" };
    const response = await (deploy
      ? fetch(url, { method: "PUT", headers, body: JSON.stringify({ salt: Number(salt) }) })
      : fetch(`${url}?salt=${salt}`));
    if (!response.ok) throw refused(`status ${response.status}`);
    return response.json();
  }

  // A call that changes nothing: a transfer that is tried out, a wallet's word, or several calls in one bundle.
  async readContract({ address, functionName, args }) {
    if (functionName === "isValidSignature") return this.#isValid(address, ...args);
    if (functionName === "tryAggregate") {
      const made = {};
      const answers = [];
      for (const { target, callData } of args[1]) answers.push(await this.#try(target, callData, made));
      return answers;
    }
    if (functionName !== "transferWithAuthorization") throw refused(`no function ${functionName}`);
    await this.#check(args);
  }

  // One call of a bundle. `made`: owners of the wallets that earlier calls of it would deploy.
  async #try(target, data, made) {
    if (target.toLowerCase() === FACTORY.toLowerCase() && this.wallets) {
      const wallet = await this.#madeBy(data);
      made[wallet.address.toLowerCase()] = wallet.owner;
      return { success: true, returnData: "0x" };
    }
    if (slice(data, 0, 4) === toFunctionSelector(TRANSFER[0])) {
      try {
        await this.#check(decodeFunctionData({ abi: TRANSFER, data }).args, made);
      } catch ({ reason }) {
        return { success: false, returnData: encodeErrorResult({ abi: REASON, args: [reason] }) };
      }
      return { success: true, returnData: "0x" };
    }
    return this.#answer(data);
  }

  #answer(data) {
    const asked = SELECTORS[data.slice(0, 10)];
    const who = "0x" + data.slice(34, 74);
    if (asked === "balanceOf") return encoded("uint256", BigInt(this.balances[who] ?? 0));
    if (asked === "authorizationState") return encoded("bool", this.#used.has(who + "0x" + data.slice(74, 138)));
    return asked ? encoded("string", domain[asked]) : { success: false, returnData: "0x" };
  }

  // The rules of `transferWithAuthorization`, in the contract's order and words. It has two forms: the signature as
  // v, r and s, or as bytes.
  async #check([from, to, value, validAfter, validBefore, nonce, ...signed], made = {}) {
    const now = BigInt(Math.floor(Date.now() / 1000));
    if (now <= validAfter) throw refused("FiatTokenV2: authorization is not yet valid");
    if (now >= validBefore) throw refused("FiatTokenV2: authorization is expired");
    if (this.#used.has(from.toLowerCase() + nonce)) throw refused("FiatTokenV2: authorization is used or canceled");
    const [v, r, s] = signed;
    const signature = signed.length === 1 ? signed[0] : concat([r, s, toHex(Number(v) < 27 ? Number(v) + 27 : v, { size: 1 })]);
    const message = { from, to, value, validAfter, validBefore, nonce };
    const typed = { domain, types, primaryType: "TransferWithAuthorization", message };
    if (!(await this.#hasSigned(from, typed, signature, made))) throw refused("FiatTokenV2: invalid signature");
    if (BigInt(this.balances[from.toLowerCase()] ?? 0) < value) throw refused("ERC20: transfer amount exceeds balance");
  }

  // A contract says so itself; else the signature is of the key, or of that which a new wallet will accept.
  async #hasSigned(from, typed, signature, made) {
    if (((await this.getCode({ address: from })) ?? "0x") !== "0x") {
      return (await this.#isValid(from, hashTypedData(typed), signature)) === VALID;
    }
    const owner = made[from.toLowerCase()] ?? from;
    return (await recoverTypedDataAddress({ ...typed, signature })).toLowerCase() === owner.toLowerCase();
  }

  // Deploy a wallet. The transaction's hash.
  async sendTransaction({ to, data }) {
    if (to.toLowerCase() !== FACTORY.toLowerCase() || !this.wallets) throw refused("no such contract");
    await this.#madeBy(data, true);
    const transaction = keccak256(data);
    this.#deployments.add(transaction);
    return transaction;
  }

  // Move the money. The transaction's hash.
  async writeContract({ args }) {
    const reason = this.revert;
    this.revert = null;
    if (reason !== null) throw refused(reason);
    await this.#check(args);
    const [from, to, value, , , nonce] = args;
    this.#used.add(from.toLowerCase() + nonce);
    this.balances[from.toLowerCase()] -= Number(value);
    this.balances[to.toLowerCase()] = (this.balances[to.toLowerCase()] ?? 0) + Number(value);
    const transaction = keccak256(nonce);
    this.transfers.push({ from, to, value: Number(value), nonce, transaction });
    return transaction;
  }

  async waitForTransactionReceipt({ hash }) {
    if (this.#deployments.has(hash)) return { status: "success", logs: [] };
    if (this.pending > 0) {
      this.pending -= 1;
      throw new Error("no receipt yet");
    }
    const made = this.transfers.find((one) => one.transaction === hash);
    const topics = [keccak256(toHex("Transfer(address,address,uint256)")), pad(made.from), pad(made.to)];
    const data = encodeAbiParameters([{ type: "uint256" }], [BigInt(made.value)]);
    return { status: "success", logs: [{ address: USDC, topics, data }] };
  }
}
