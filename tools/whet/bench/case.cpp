// SPDX-License-Identifier: Apache-2.0
#include "tools/whet/bench/case.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include "tools/whet/bench/paths.hpp"

namespace whet::bench {
namespace {

using nlohmann::json;

struct OpName {
    const char* name;
    bench_op op;
    int spatial_rank;
};
constexpr std::array kOpNames{
    OpName{"linear", BENCH_LINEAR, 0},
    OpName{"gemm", BENCH_GEMM, 0},
    OpName{"bmm", BENCH_BMM, 0},
    OpName{"conv1d", BENCH_CONV, 1},
    OpName{"conv2d", BENCH_CONV, 2},
    OpName{"conv3d", BENCH_CONV, 3},
    OpName{"conv_transpose2d", BENCH_CONV_TRANSPOSE, 2},
    OpName{"softmax", BENCH_SOFTMAX, 0},
    OpName{"norm", BENCH_NORM, 0},
};

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument(text); }

int64_t positive(const json& row, const char* field) {
    if (!row.contains(field) || !row[field].is_number_integer() || row[field].get<int64_t>() < 1)
        refuse(std::string("field ") + field + " must be a positive integer in " + row.dump());
    return row[field].get<int64_t>();
}

int32_t small_or(const json& row, const char* field, int32_t fallback) {
    if (!row.contains(field)) return fallback;
    if (!row[field].is_number_integer() || row[field].get<int64_t>() < 0 ||
        row[field].get<int64_t>() > 1 << 20)
        refuse(std::string("field ") + field + " must be a small integer in " + row.dump());
    return row[field].get<int32_t>();
}

void read_axes(const json& row, const char* field, int rank, int64_t* extents) {
    if (!row.contains(field) || !row[field].is_array() ||
        static_cast<int>(row[field].size()) != rank)
        refuse(std::string("field ") + field + " must list " + std::to_string(rank) +
               " extents in " + row.dump());
    for (int axis = 0; axis < rank; ++axis) {
        const json& extent = row[field][static_cast<size_t>(axis)];
        if (!extent.is_number_integer() || extent.get<int64_t>() < 1)
            refuse(std::string("field ") + field + " must hold positive integers in " + row.dump());
        extents[axis] = extent.get<int64_t>();
    }
}

void read_convolution(const json& row, bench_shape& shape) {
    shape.batch = positive(row, "batch");
    shape.in_channels = positive(row, "in_channels");
    shape.out_channels = positive(row, "out_channels");
    shape.groups = row.contains("groups") ? positive(row, "groups") : 1;
    read_axes(row, "spatial", shape.spatial_rank, shape.spatial);
    read_axes(row, "kernel", shape.spatial_rank, shape.kernel);
    shape.stride = small_or(row, "stride", 1);
    shape.padding = small_or(row, "padding", 0);
    shape.dilation = small_or(row, "dilation", 1);
    if (shape.stride < 1 || shape.dilation < 1)
        refuse("stride and dilation must be positive in " + row.dump());
    if (shape.in_channels % shape.groups || shape.out_channels % shape.groups)
        refuse("groups must divide the channels in " + row.dump());
}

int64_t dst_spatial(const bench_shape& s, int axis) {
    if (s.op == BENCH_CONV_TRANSPOSE)
        return (s.spatial[axis] - 1) * s.stride - 2 * s.padding +
               s.dilation * (s.kernel[axis] - 1) + 1;
    return (s.spatial[axis] + 2 * s.padding - s.dilation * (s.kernel[axis] - 1) - 1) / s.stride + 1;
}

std::string joined(const int64_t* extents, int rank) {
    std::string text;
    for (int axis = 0; axis < rank; ++axis)
        text += (axis ? "x" : "") + std::to_string(extents[axis]);
    return text;
}

json value_of(const std::string& text) {
    json list = json::array();
    std::stringstream parts(text);
    for (std::string part; std::getline(parts, part, 'x');) {
        int64_t number = 0;
        const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), number);
        if (code != std::errc() || end != part.data() + part.size())
            refuse("not a number: " + text);
        list.push_back(number);
    }
    return list;
}

}  // namespace

int64_t count_of(const Extents& extents) {
    int64_t count = 1;
    for (const int64_t extent : extents) count *= extent;
    return count;
}

std::string Case::family() const {
    const bench_shape& s = shape;
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM: return op + " k=" + std::to_string(s.k) + " n=" + std::to_string(s.n);
        case BENCH_BMM:
            return op + " m=" + std::to_string(s.m) + " k=" + std::to_string(s.k) +
                   " n=" + std::to_string(s.n);
        case BENCH_SOFTMAX: return op + " columns=" + std::to_string(s.columns);
        case BENCH_NORM: return op + " m=" + std::to_string(s.m) + " n=" + std::to_string(s.n);
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    std::string text =
        op + " in=" + std::to_string(s.in_channels) + " out=" + std::to_string(s.out_channels) +
        " spatial=" + joined(s.spatial, s.spatial_rank) +
        " kernel=" + joined(s.kernel, s.spatial_rank) + " stride=" + std::to_string(s.stride);
    if (s.groups != 1) text += " groups=" + std::to_string(s.groups);
    if (s.dilation != 1) text += " dilation=" + std::to_string(s.dilation);
    return text;
}

Extents Case::dst_extents() const {
    const bench_shape& s = shape;
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM: return {s.m, s.n};
        case BENCH_BMM: return {s.batch, s.m, s.n};
        case BENCH_SOFTMAX: return {s.rows, s.columns};
        case BENCH_NORM: return {s.batch};
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    Extents extents{s.batch, s.out_channels};
    for (int axis = 0; axis < s.spatial_rank; ++axis) extents.push_back(dst_spatial(s, axis));
    return extents;
}

Extents Case::a_extents() const {
    const bench_shape& s = shape;
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM: return {s.m, s.k};
        case BENCH_BMM: return {s.batch, s.m, s.k};
        case BENCH_SOFTMAX: return {s.rows, s.columns};
        case BENCH_NORM: return {s.batch, s.m, s.n};
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    Extents extents{s.batch, s.in_channels};
    extents.insert(extents.end(), s.spatial, s.spatial + s.spatial_rank);
    return extents;
}

Extents Case::b_extents() const {
    const bench_shape& s = shape;
    switch (s.op) {
        case BENCH_LINEAR: return {s.n, s.k};
        case BENCH_GEMM: return {s.k, s.n};
        case BENCH_BMM: return {s.batch, s.k, s.n};
        case BENCH_SOFTMAX:
        case BENCH_NORM: return {};
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    Extents extents = s.op == BENCH_CONV ? Extents{s.out_channels, s.in_channels / s.groups}
                                         : Extents{s.in_channels, s.out_channels / s.groups};
    extents.insert(extents.end(), s.kernel, s.kernel + s.spatial_rank);
    return extents;
}

bool Case::has_weights() const {
    return shape.op == BENCH_LINEAR || shape.op == BENCH_CONV || shape.op == BENCH_CONV_TRANSPOSE;
}

double Case::flops() const {
    const bench_shape& s = shape;
    const auto dst = static_cast<double>(count_of(dst_extents()));
    switch (s.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM:
        case BENCH_BMM: return 2.0 * dst * static_cast<double>(s.k);
        case BENCH_SOFTMAX: return 4.0 * dst;
        case BENCH_NORM: return 2.0 * static_cast<double>(count_of(a_extents()));
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: break;
    }
    double taps = 1;
    for (int axis = 0; axis < s.spatial_rank; ++axis) taps *= static_cast<double>(s.kernel[axis]);
    if (s.op == BENCH_CONV) return 2.0 * dst * taps * static_cast<double>(s.in_channels / s.groups);
    return 2.0 * static_cast<double>(count_of(a_extents())) * taps *
           static_cast<double>(s.out_channels / s.groups);
}

double Case::bytes() const {
    const Extents b = b_extents();
    return static_cast<double>(sizeof(float)) *
           static_cast<double>(count_of(dst_extents()) + count_of(a_extents()) +
                               (b.empty() ? 0 : count_of(b)));
}

Case parse_case(const json& row, const std::string& suite) {
    if (!row.is_object() || !row.contains("op") || !row["op"].is_string())
        refuse("a case needs an op: " + row.dump());
    Case one;
    one.suite = suite;
    one.op = row["op"].get<std::string>();
    const OpName* found = nullptr;
    for (const OpName& entry : kOpNames)
        if (one.op == entry.name) found = &entry;
    if (!found) refuse("unknown op " + one.op);
    bench_shape& shape = one.shape;
    shape.op = found->op;
    shape.spatial_rank = found->spatial_rank;
    shape.groups = 1;
    switch (shape.op) {
        case BENCH_LINEAR:
        case BENCH_GEMM:
        case BENCH_BMM:
            shape.m = positive(row, "m");
            shape.k = positive(row, "k");
            shape.n = positive(row, "n");
            if (shape.op == BENCH_BMM) shape.batch = positive(row, "batch");
            break;
        case BENCH_SOFTMAX:
            shape.rows = positive(row, "rows");
            shape.columns = positive(row, "columns");
            break;
        case BENCH_NORM:
            shape.batch = positive(row, "batch");
            shape.m = positive(row, "m");
            shape.n = positive(row, "n");
            break;
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: read_convolution(row, shape); break;
    }
    for (const int64_t extent : one.dst_extents())
        if (extent < 1) refuse("the kernel does not fit the source in " + row.dump());
    one.name = row.value("name", one.op);
    return one;
}

Case parse_case_text(std::string_view text) {
    std::stringstream words{std::string(text)};
    json row = json::object();
    std::string word;
    if (!(words >> word)) refuse("an empty row");
    row["op"] = word;
    row["name"] = std::string(text);
    while (words >> word) {
        const size_t equals = word.find('=');
        if (equals == std::string::npos) refuse("expected name=value, got " + word);
        const std::string field = word.substr(0, equals);
        const json value = value_of(word.substr(equals + 1));
        row[field] = field == "spatial" || field == "kernel" ? value : value.at(0);
    }
    return parse_case(row, "");
}

std::vector<Case> load_suite(const std::string& path_or_name) {
    namespace fs = std::filesystem;
    std::string path = path_or_name;
    if (!fs::exists(path)) path = find_suite(path_or_name);
    if (path.empty())
        refuse("no suite " + path_or_name + ", neither as a path nor in tests/bench/suites");
    std::ifstream file(path);
    const json document = json::parse(file, nullptr, false);
    if (document.is_discarded() || !document.is_object() || !document.contains("cases") ||
        !document["cases"].is_array())
        refuse(path + " is not a suite: expected a JSON object with a list \"cases\"");
    std::vector<Case> cases;
    const std::string suite = fs::path(path).stem().string();
    for (const json& row : document["cases"]) cases.push_back(parse_case(row, suite));
    return cases;
}

namespace {

whet_tensor tensor_of(const Extents& extents, const int64_t* strides = nullptr) {
    return {nullptr, WHET_F32, static_cast<int32_t>(extents.size()), extents.data(), strides};
}

}  // namespace

whet_status describe(const Case& one, bool frozen, whet_op* op) {
    const bench_shape& s = one.shape;
    const Extents dst_extents = one.dst_extents(), a_extents = one.a_extents(),
                  b_extents = one.b_extents();
    const whet_tensor dst = tensor_of(dst_extents), a = tensor_of(a_extents),
                      b = tensor_of(b_extents);
    whet_status status = WHET_UNSUPPORTED;
    switch (s.op) {
        case BENCH_LINEAR: {
            const Extents transposed{s.k, s.n}, bias_extents{s.n};
            const int64_t strides[2] = {1, s.k};
            const whet_tensor weights = tensor_of(transposed, strides),
                              bias = tensor_of(bias_extents);
            status = whet_op_matmul(op, &dst, &a, &weights, &bias, 1.0f, 0.0f, WHET_EPILOGUE_NONE);
            break;
        }
        case BENCH_GEMM:
        case BENCH_BMM:
            status = whet_op_matmul(op, &dst, &a, &b, nullptr, 1.0f, 0.0f, WHET_EPILOGUE_NONE);
            break;
        case BENCH_SOFTMAX: status = whet_op_softmax(op, &dst, &a); break;
        case BENCH_NORM: return WHET_UNSUPPORTED;
        case BENCH_CONV:
        case BENCH_CONV_TRANSPOSE: {
            whet_conv_params params{};
            params.groups = static_cast<int32_t>(s.groups);
            for (int axis = 0; axis < 3; ++axis) {
                const bool used = axis < s.spatial_rank;
                params.stride[axis] = used ? s.stride : 1;
                params.padding[axis] = used ? s.padding : 0;
                params.dilation[axis] = used ? s.dilation : 1;
            }
            const auto make = s.op == BENCH_CONV ? whet_op_conv : whet_op_conv_transpose;
            status = make(op, &dst, &a, &b, nullptr, &params, WHET_EPILOGUE_NONE);
            break;
        }
    }
    if (status != WHET_OK || !frozen || !one.has_weights()) return status;
    status = whet_op_set_frozen(op, WHET_B);
    if (status == WHET_OK && one.has_bias()) status = whet_op_set_frozen(op, WHET_BIAS);
    return status;
}

}  // namespace whet::bench
