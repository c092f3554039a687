"""Every relation of a statement as sums that are added up piece by piece, at both sides and over the true integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.crypto.lattice.parameters import SPAN, N
from colonnade.crypto.product import Integers
from colonnade.crypto.ranges.coding import Bits, spell
from colonnade.crypto.ranges.field import LimbSums, Numbers, Objects
from colonnade.crypto.ranges.statements import DATA, KEYS, RandomMasks, RangeStatement, T

ENTRY, COEFFICIENT = 12, 5
"""Bits of the entries of columns, and of coefficients of keys, with their signs."""


class RelationSums:
    """The relations' sums over numbers that stand for their bits: m at who proves, the keys k at who checks."""

    def __init__(self, statement: RangeStatement, masks: RandomMasks) -> None:
        self._statement, self._masks, field = statement, masks, statement.field
        self._data = [LimbSums.of_numbers(statement.coefficient_bits, field) for _ in statement.spans]
        self._levels = LimbSums.of_numbers(1, field)
        self._ones: list[Objects] = [np.zeros(T, object) for _ in statement.spans]
        self._chosen: Integers = np.zeros(T, np.int64)
        self._keys: list[Numbers] = []
        self._sums: list[Numbers] = []
        self._images: list[Objects] = []

    def add(self, kind: str, start: int, numbers: Numbers) -> None:
        """Add the numbers of the next piece; those of data belong to records from `start` on."""
        if kind == DATA:
            self._add_data(start, numbers.reshape(2, -1, self._statement.coding.width))
        elif kind == KEYS:
            self._keys.append(numbers.reshape(2, -1, N, len(self._statement.key_weights)))
        else:
            self._sums.append(numbers)

    def _add_data(self, start: int, numbers: Numbers) -> None:
        statement, stop = self._statement, start + numbers.shape[1]
        span = start // SPAN if statement.seals else 0
        masks = self._masks.rows(start, stop)
        coefficients: NDArray[np.integer] = masks if statement.seals else self._masks.row_image(start, stop)
        self._data[span].add_numbers(coefficients, numbers)
        self._ones[span] += coefficients.sum(axis=1, dtype=np.int64).astype(object)
        self._chosen += masks.sum(axis=1, dtype=np.int64)
        if not statement.seals and statement.coding.sums.shape[1]:
            self._levels.add_numbers(masks, numbers)

    def totals(self, turned: Bits, offset: int) -> list[int]:
        """Return every relation's sum modulo p, where random bits r stand for bits r ^ turned of z and h.

        1 - r has the number -m at who proves, with `offset` 0, and -(k + F) at who checks, with F.
        """
        statement, field, coding = self._statement, self._statement.field, self._statement.coding
        whole = np.concatenate(self._sums, axis=1)
        whole = np.where(turned == 1, field.negative(field.add(whole, field.whole(offset))), whole)
        out, at, counted = [], 0, []
        self._images.clear()
        for number, span in enumerate(statement.spans):
            data = self._data[number].value()
            counted.append(data)
            total = statement.scale * (data @ coding.weights.astype(object)) + self._of_keys(span)
            for weights, scale in zip(statement.sum_weights, (1, 1 << statement.k), strict=True):
                size = T * statement.columns * len(weights)
                part = whole[:, at : at + size].reshape(2, -1, len(weights)).transpose(0, 2, 1)
                spelt = LimbSums.of_numbers(max(weights).bit_length() + 1, field)
                spelt.add_numbers(np.array([weights], np.int64), part)
                total = total + scale * spelt.value().reshape(T, -1)
                at += size
            out.append(total)
        if coding.sums.shape[1]:
            levels = sum(counted) if statement.seals else self._levels.value()
            out.append(levels @ coding.sums.astype(object))
        return [int(v) % field.p for part in out for v in part.ravel()]

    def _of_keys(self, span: slice) -> Objects:
        """(T, columns) sums over the bits of keys."""
        statement = self._statement
        image = self._masks.span_image(span) if statement.seals else self._masks.key_image()
        self._images.append(image.sum(axis=1, dtype=np.int64).astype(object))
        weights, out = np.array(statement.key_weights, object), []
        for part in self._keys:
            sums = LimbSums.of_numbers(statement.k, statement.field)
            sums.add_numbers(image, np.ascontiguousarray(part.transpose(0, 2, 1, 3)).reshape(2, N, -1))
            out.append(sums.value().reshape(T, part.shape[1], -1) @ weights)
        return np.concatenate(out, axis=1)

    def constants(self, targets: Integers) -> list[int]:
        """Return what every relation's sum of true bits is, once `totals` was called: L, and what offsets add to it."""
        statement, out = self._statement, []
        lifted = statement.z + (statement.h << statement.k)
        for ones, image, target in zip(self._ones, self._images, targets, strict=True):
            columns = statement.scale * np.outer(ones, statement.coding.offset.astype(object))
            out.append(target.astype(object) - columns + (statement.reach * image)[:, None] + lifted)
        if count := statement.coding.sums.shape[1]:
            out.append(np.repeat(self._chosen.astype(object)[:, None], count, axis=1))
        return [int(v) for part in out for v in part.ravel()]


class TrueSums:
    """The integers z and h of every relation, from columns, keys and errors."""

    def __init__(self, statement: RangeStatement, masks: RandomMasks) -> None:
        self._statement, self._masks = statement, masks
        self._columns = [LimbSums(statement.coefficient_bits, ENTRY) for _ in statement.spans]
        self._z: Integers = np.zeros((len(statement.spans), T, statement.columns), np.int64)

    def add_rows(self, start: int, rows: NDArray[np.int16]) -> None:
        """Add records of one piece."""
        stop, seals = start + len(rows), self._statement.seals
        coefficients = self._masks.rows(start, stop) if seals else self._masks.row_image(start, stop)
        self._columns[start // SPAN if seals else 0].add(coefficients, rows.astype(np.float64))

    def add_errors(self, start: int, columns: slice, errors: NDArray[np.int8]) -> None:
        """Add errors of some columns, of words from a row on; those of keys, and of u, follow the last record."""
        n = self._statement.spec.rows
        if start >= n:
            self._z[-1][:, columns] += _dot(self._masks.key, errors)
            return
        for number, span in enumerate(self._statement.spans):
            first, last = max(span.start, start), min(span.stop, start + len(errors))
            if first < last:
                self._z[number][:, columns] += _dot(self._masks.rows(first, last), errors[first - start : last - start])

    def bits(self, keys: NDArray[np.int8]) -> Bits:
        """Return the bits of all z and h; a sum beyond its range is cut to it, and its proof will be refused."""
        statement, k, out = self._statement, self._statement.k, []
        for number, span in enumerate(statement.spans):
            image = self._masks.span_image(span) if statement.seals else self._masks.key_image()
            of_keys = LimbSums(k, COEFFICIENT)
            of_keys.add(image, keys.T.astype(np.float64))
            z = self._z[number].astype(object)
            total = statement.scale * self._columns[number].value() + of_keys.value() + z
            # L is congruent to the total, and centred: what lacks is the carry.
            h = -((total + (1 << (k - 1))) >> k)
            for values, reach, weights in zip((z, h), (statement.z, statement.h), statement.sum_weights, strict=True):
                out.append(spell((np.clip(values, -reach, reach) + reach).astype(np.int64), weights).ravel())
        return np.concatenate(out)


def _dot(masks: NDArray[np.uint8], errors: NDArray[np.int8]) -> Integers:
    sums: Integers = (masks.astype(np.float64) @ errors.astype(np.float64)).astype(np.int64)
    return sums
