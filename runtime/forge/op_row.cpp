// SPDX-License-Identifier: Apache-2.0
// Operations as one line of text, in the words of the suites: `linear m=32 k=384 n=1536`.
#include "runtime/forge/op_row.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>
#include <vector>

namespace whet::runtime::forge {
namespace {

using base::Code;
using base::make_error;

using Values = std::vector<int64_t>;

/// The words after the operator; remembers which were asked for, so that unknown ones are refused.
class Row {
public:
    base::Result<void> add(std::string_view word) {
        const size_t equals = word.find('=');
        if (equals == std::string_view::npos) {
            return make_error(Code::invalid_argument, "got word '%s', expected key=value",
                              std::string(word).c_str());
        }
        Values values;
        std::string_view text = word.substr(equals + 1);
        if (text == "true") text = "1";
        if (text == "f32") text = "32";
        if (text == "f64") text = "64";
        for (;;) {
            int64_t value = 0;
            const auto [end, error] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc() || value < 0) {
                return make_error(Code::invalid_argument,
                                  "got '%s', expected numbers like 56 or 56x56",
                                  std::string(word).c_str());
            }
            values.push_back(value);
            text.remove_prefix(static_cast<size_t>(end - text.data()));
            if (text.empty()) break;
            if (text.front() != 'x' && text.front() != ',') {
                return make_error(Code::invalid_argument,
                                  "got '%s', expected numbers like 56 or 56x56",
                                  std::string(word).c_str());
            }
            text.remove_prefix(1);
        }
        values_[std::string(word.substr(0, equals))] = std::move(values);
        return {};
    }

    int64_t number(const char* key, int64_t otherwise = -1) {
        const auto found = values_.find(key);
        if (found == values_.end()) {
            if (otherwise < 0) missing_ = key;
            return otherwise;
        }
        used_ += 1;
        return found->second[0];
    }

    /// One value per axis; a single one counts for all.
    Values axes(const char* key, int rank, int64_t otherwise = -1) {
        const auto found = values_.find(key);
        Values values = found == values_.end() ? Values{otherwise} : found->second;
        if (found == values_.end() && otherwise < 0) missing_ = key;
        if (found != values_.end()) used_ += 1;
        values.resize(static_cast<size_t>(rank), values[0]);
        return values;
    }

    base::Result<void> check() const {
        if (!missing_.empty())
            return make_error(Code::invalid_argument, "expected a value for %s", missing_.c_str());
        if (used_ != values_.size())
            return make_error(Code::invalid_argument,
                              "the row has a key that its operator does not know");
        return {};
    }

private:
    std::map<std::string, Values> values_;
    std::string missing_;
    size_t used_ = 0;
};

whet_tensor tensor_of(const Values& extents, const Values* strides = nullptr,
                      whet_dtype dtype = WHET_F32) {
    return {nullptr, dtype, static_cast<int32_t>(extents.size()), extents.data(),
            strides != nullptr ? strides->data() : nullptr};
}

base::Result<whet_op> finish(whet_status status, const whet_op& op) {
    if (status == WHET_OK) return op;
    return make_error(static_cast<Code>(status), "%s", whet_last_error());
}

base::Result<whet_op> parse_product(std::string_view name, Row& row) {
    const int64_t m = row.number("m"), k = row.number("k"), n = row.number("n");
    const int64_t batch = name == "bmm" ? row.number("batch") : 0;
    const bool linear = name == "linear";
    const int64_t frozen = row.number("frozen", 0), with_bias = row.number("bias", linear ? 1 : 0);
    const int64_t relu = row.number("relu", 0), threads = row.number("threads", 1),
                  bits = row.number("dtype", 32);
    WHET_TRY_VOID(row.check());
    if (bits != 32 && bits != 64)
        return make_error(Code::invalid_argument, "got another dtype, expected f32 or f64");
    const whet_dtype dtype = bits == 64 ? WHET_F64 : WHET_F32;
    Values c{m, n}, a{m, k}, b{k, n}, bias{n}, weight_strides{1, k};
    if (batch > 0)
        for (Values* extents : {&c, &a, &b}) extents->insert(extents->begin(), batch);
    const whet_tensor dst = tensor_of(c, nullptr, dtype), src = tensor_of(a, nullptr, dtype),
                      added = tensor_of(bias, nullptr, dtype);
    const whet_tensor weights = tensor_of(b, linear ? &weight_strides : nullptr, dtype);
    whet_op op{};
    const whet_status status =
        whet_op_matmul(&op, &dst, &src, &weights, with_bias != 0 ? &added : nullptr, 1, 0,
                       relu != 0 ? WHET_EPILOGUE_RELU : WHET_EPILOGUE_NONE);
    if (status == WHET_OK && frozen != 0) {
        whet_op_set_frozen(&op, WHET_B);
        if (with_bias != 0) whet_op_set_frozen(&op, WHET_BIAS);
    }
    if (status != WHET_OK) return finish(status, op);
    return finish(whet_op_set_threads(&op, static_cast<int>(std::min<int64_t>(threads, INT_MAX))),
                  op);
}

base::Result<whet_op> parse_convolution(bool transposed, int rank, Row& row) {
    const int64_t batch = row.number("batch", 1), in = row.number("in_channels"),
                  out = row.number("out_channels");
    const int64_t groups = row.number("groups", 1), frozen = row.number("frozen", 0),
                  with_bias = row.number("bias", 0);
    const int64_t relu = row.number("relu", 0);
    const Values spatial = row.axes("spatial", rank), kernel = row.axes("kernel", rank);
    const Values stride = row.axes("stride", rank, 1), padding = row.axes("padding", rank, 0);
    const Values dilation = row.axes("dilation", rank, 1),
                 output_padding = row.axes("output_padding", rank, 0);
    WHET_TRY_VOID(row.check());
    if (groups < 1) return make_error(Code::invalid_argument, "got groups=0, expected 1 or more");
    whet_conv_params params{};
    params.groups = static_cast<int32_t>(groups);
    Values src{batch, in}, dst{batch, out};
    Values weights = transposed ? Values{in, out / groups} : Values{out, in / groups};
    for (int d = 0; d < rank; ++d) {
        const auto at = static_cast<size_t>(d);
        if (stride[at] < 1 || dilation[at] < 1)
            return make_error(Code::invalid_argument,
                              "got stride or dilation 0, expected 1 or more");
        params.stride[d] = static_cast<int32_t>(stride[at]);
        params.padding[d] = static_cast<int32_t>(padding[at]);
        params.dilation[d] = static_cast<int32_t>(dilation[at]);
        params.output_padding[d] = static_cast<int32_t>(output_padding[at]);
        src.push_back(spatial[at]);
        weights.push_back(kernel[at]);
        const int64_t reach = dilation[at] * (kernel[at] - 1) + 1;
        dst.push_back(transposed ? (spatial[at] - 1) * stride[at] - 2 * padding[at] + reach +
                                       output_padding[at]
                                 : (spatial[at] + 2 * padding[at] - reach) / stride[at] + 1);
    }
    const Values channels{out};
    const whet_tensor d = tensor_of(dst), s = tensor_of(src), w = tensor_of(weights),
                      b = tensor_of(channels);
    whet_op op{};
    const whet_epilogue epilogue = relu != 0 ? WHET_EPILOGUE_RELU : WHET_EPILOGUE_NONE;
    const auto build = transposed ? whet_op_conv_transpose : whet_op_conv;
    const whet_status status =
        build(&op, &d, &s, &w, with_bias != 0 ? &b : nullptr, &params, epilogue);
    if (status == WHET_OK && frozen != 0) whet_op_set_frozen(&op, WHET_B);
    return finish(status, op);
}

}  // namespace

base::Result<whet_op> parse_op_row(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const size_t space = text.find(' ');
        if (space != 0) words.push_back(text.substr(0, space));
        text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    }
    if (words.empty())
        return make_error(Code::invalid_argument, "got an empty row, expected an operator");
    Row row;
    for (size_t i = 1; i < words.size(); ++i) WHET_TRY_VOID(row.add(words[i]));
    const std::string_view name = words[0];
    if (name == "linear" || name == "gemm" || name == "bmm") return parse_product(name, row);
    if (name == "conv1d") return parse_convolution(false, 1, row);
    if (name == "conv2d") return parse_convolution(false, 2, row);
    if (name == "conv3d") return parse_convolution(false, 3, row);
    if (name == "conv_transpose2d") return parse_convolution(true, 2, row);
    if (name == "softmax") {
        const Values shape{row.number("rows"), row.number("columns")};
        WHET_TRY_VOID(row.check());
        const whet_tensor tensor = tensor_of(shape);
        whet_op op{};
        const whet_status status = whet_op_softmax(&op, &tensor, &tensor);
        return finish(status, op);
    }
    return make_error(Code::invalid_argument,
                      "got operator '%s', expected linear, gemm, bmm, conv1d, conv2d, conv3d, "
                      "conv_transpose2d or softmax",
                      std::string(name).c_str());
}

}  // namespace whet::runtime::forge
