// USDC on Base as far as the official facilitator looks at it: balances, used nonces, transfers. No network.
// The facilitator classes check signatures themselves; this token checks them again when it is asked to move money.
import { encodeAbiParameters, keccak256, pad, recoverTypedDataAddress, toFunctionSelector, toHex } from "viem";

export const USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
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
const encoded = (type, value) => ({ success: true, returnData: encodeAbiParameters([{ type }], [value]) });
const refused = (reason) => new Error(`execution reverted: ${reason}`);

export class Chain {
  address = "0x00000000000000000000000000000000000fAc17";
  balances = {};
  transfers = [];
  revert = null;
  pending = 0;
  #used = new Set();

  async getCode({ address }) {
    return address.toLowerCase() === USDC.toLowerCase() ? "0x60" : undefined;
  }

  async verifyTypedData({ address, signature, ...typed }) {
    return (await recoverTypedDataAddress({ ...typed, signature })).toLowerCase() === address.toLowerCase();
  }

  // A call that changes nothing: a transfer that is tried out, or questions in one bundle.
  async readContract({ functionName, args }) {
    if (functionName === "tryAggregate") return args[1].map(({ callData }) => this.#answer(callData));
    if (functionName !== "transferWithAuthorization") throw refused(`no function ${functionName}`);
    await this.#check(args);
  }

  #answer(data) {
    const asked = SELECTORS[data.slice(0, 10)];
    const who = "0x" + data.slice(34, 74);
    if (asked === "balanceOf") return encoded("uint256", BigInt(this.balances[who] ?? 0));
    if (asked === "authorizationState") return encoded("bool", this.#used.has(who + "0x" + data.slice(74, 138)));
    return asked ? encoded("string", domain[asked]) : { success: false, returnData: "0x" };
  }

  // The rules of `transferWithAuthorization`, in the contract's order and words.
  async #check([from, to, value, validAfter, validBefore, nonce, ...signed]) {
    const now = BigInt(Math.floor(Date.now() / 1000));
    if (now <= validAfter) throw refused("FiatTokenV2: authorization is not yet valid");
    if (now >= validBefore) throw refused("FiatTokenV2: authorization is expired");
    if (this.#used.has(from.toLowerCase() + nonce)) throw refused("FiatTokenV2: authorization is used or canceled");
    const [v, r, s] = signed;
    const message = { from, to, value, validAfter, validBefore, nonce };
    const signature = { r, s, v: BigInt(v) };
    const typed = { domain, types, primaryType: "TransferWithAuthorization", message };
    const recovered = await recoverTypedDataAddress({ ...typed, signature });
    if (recovered.toLowerCase() !== from.toLowerCase()) throw refused("FiatTokenV2: invalid signature");
    if (BigInt(this.balances[from.toLowerCase()] ?? 0) < value) throw refused("ERC20: transfer amount exceeds balance");
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
