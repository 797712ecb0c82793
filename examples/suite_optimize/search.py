"""A small search over help pages, with parameters that matter: an application to optimize."""

import math
import re

PAGES = {
    "refunds": "Refunds: ask for your money back within 30 days; the amount is on your card in 5 days.",
    "returns": "Returns: send an item back in its box with the label we mail; damaged goods are collected.",
    "shipping": "Shipping: parcels leave the warehouse in one day; delivery abroad takes 7 to 10 days.",
    "tracking": "Tracking: a parcel number and a link come by mail; the courier shows where the parcel is.",
    "password": "Password: reset it with the link on the sign-in page; the link is good for one hour.",
    "account": "Account: change name, address and mail in the profile; closing an account takes a day.",
    "invoice": "Invoice: every order has a bill as PDF in the profile; tax numbers can be added to a bill.",
    "payment": "Payment: card, bank transfer or instalments; a declined card can be tried again at checkout.",
    "warranty": "Warranty: two years on electronics; repairs are free, and a broken device is replaced.",
    "gift": "Gift cards: sent by mail, good for three years, and not exchanged for money.",
}
COMMON = {
    "the",
    "a",
    "is",
    "my",
    "i",
    "to",
    "of",
    "in",
    "it",
    "and",
    "how",
    "do",
    "can",
    "what",
    "for",
    "on",
    "with",
}


def answer(question, stem=12, common_words=True, weight="none"):
    """Return the page that shares most words with a question."""
    words = terms(question, stem, common_words)
    scores = {name: overlap(words, terms(text, stem, common_words), weight) for name, text in PAGES.items()}
    best = max(scores, key=scores.get)
    return best if scores[best] > 0 else "unknown"


def terms(text, stem, common_words):
    words = re.findall(r"[a-z]+", text.lower())
    return [word[:stem] for word in words if common_words or word not in COMMON]


def overlap(words, page, weight):
    shared = set(words) & set(page)
    if weight == "none":
        return float(len(shared))
    pages = [set(terms(text, 99, True)) for text in PAGES.values()]
    return sum(1 / math.log(2 + sum(any(w.startswith(word) for w in p) for p in pages)) for word in shared)
