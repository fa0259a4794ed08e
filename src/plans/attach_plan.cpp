// SPDX-License-Identifier: Apache-2.0
#include "plans/attach_plan.hpp"

#include "plans/descriptions.hpp"
#include "util/json_fields.hpp"

#include <fmt/format.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>

namespace uprobectl::plans {

namespace {

llvm::StringRef view(std::string_view text) { return {text.data(), text.size()}; }

// The `io` that writes the keys of one object (plans/descriptions.hpp).
class PlanWriter {
public:
  // `types`: of the file that is written; may be null.
  explicit PlanWriter(llvm::json::OStream& json, const dwarf::DescribedTypes* types = nullptr)
      : json_(json), types_(types) {}

  template <typename T>
  void operator()(llvm::StringRef key, const T& value) {
    if constexpr (is_specialization<T, std::optional> || is_specialization<T, std::shared_ptr>) {
      if (value) attribute(key, *value);
    } else {
      attribute(key, value);
    }
  }
  void operator()(llvm::StringRef key, const dwarf::Type* type) {
    if (type != nullptr) json_.attribute(key, number_of(*type));
  }
  void type(llvm::StringRef key, const dwarf::Type* type) { (*this)(key, type); }
  template <typename T>
  void optional(llvm::StringRef key, const T& value) {
    if constexpr (requires { value.empty(); }) {
      if (!value.empty()) attribute(key, value);
    } else {
      unless(T(), key, value);
    }
  }
  template <typename T>
  void unless(const T& left_out, llvm::StringRef key, const T& value) {
    if (value != left_out) attribute(key, value);
  }
  void optional_hex(llvm::StringRef key, std::uint64_t value) {
    if (value != 0) attribute(key, VirtualAddress{value});
  }
  void object_if(bool is_there, llvm::StringRef key, const auto& value) {
    if (is_there) attribute(key, value);
  }
  template <typename T, std::size_t N>
  void word(llvm::StringRef key, const T& value, const std::array<Word<T>, N>& words) {
    attribute(key, find_word(words, value));
  }
  template <typename T, std::size_t N>
  void word_unless(T left_out, llvm::StringRef key, const T& value,
                   const std::array<Word<T>, N>& words) {
    if (value != left_out) word(key, value, words);
  }
  template <typename T>
  void choice(llvm::StringRef key, const std::optional<T>& value,
              std::initializer_list<T> /*choices*/) {
    if (value) attribute(key, std::string_view(to_string(*value)));
  }
  void parts(llvm::StringRef key, const auto& values) { attribute(key, values); }
  void line(llvm::StringRef key, const auto& value) {
    if (!value) return;
    json_.attributeBegin(key);
    write_line(*value);
    json_.attributeEnd();
  }
  void types(llvm::StringRef key, const std::shared_ptr<const dwarf::DescribedTypes>& types) {
    types_ = types.get();
    if (types_ == nullptr) return;
    json_.attributeArray(key, [&] {
      for (std::size_t i = 0; i < types_->size(); ++i) write_line(describe_type(types_->at(i)));
    });
  }
  void expect(bool /*is_valid*/, llvm::StringRef /*key*/, std::string_view /*what*/) {}
  void set(const auto& /*member*/, const auto& /*value*/) {}

private:
  void attribute(llvm::StringRef key, const auto& value) {
    json_.attributeBegin(key);
    write(value);
    json_.attributeEnd();
  }
  template <typename T>
  void write(const T& value) {
    if constexpr (std::convertible_to<const T&, std::string_view>)
      json_.value(llvm::json::fixUTF8(view(value)));
    else if constexpr (std::same_as<T, VirtualAddress>)
      json_.value(fmt::format("{:#x}", value.value));
    else if constexpr (std::same_as<T, bool>)
      json_.value(value);
    else if constexpr (std::unsigned_integral<T>)
      json_.value(std::uint64_t{value});
    else if constexpr (std::signed_integral<T>)
      json_.value(std::int64_t{value});
    else if constexpr (is_specialization<T, std::vector>)
      json_.array([&] {
        for (const auto& each : value) write(each);
      });
    else
      json_.object([&] {
        PlanWriter object(json_, types_);
        plans::describe(object, value);
      });
  }
  // There may be thousands of them.
  void write_line(const auto& value) {
    std::string text;
    llvm::raw_string_ostream out(text);
    llvm::json::OStream line(out);
    PlanWriter(line, types_).write(value);
    json_.rawValue(out.str());
  }
  std::uint64_t number_of(const dwarf::Type& type) const {
    return types_ == nullptr ? 0 : types_->index_of(type);
  }

  llvm::json::OStream& json_;
  const dwarf::DescribedTypes* types_;
};

// The offset in the file of an address in code.
std::optional<FileOffset> code_offset(const elf::Image& image, VirtualAddress address) {
  const elf::Segment* const segment = image.find_segment(address);
  const auto offset = image.to_image(address);
  if (segment == nullptr || !segment->executable || !offset) return std::nullopt;
  return image.to_file(*offset);
}

std::unexpected<Error> outside_code(VirtualAddress address) {
  return fail(
      ErrorKind::corrupt,
      fmt::format("the plan has an exit at {:#x}, which is not in the file's code", address.value));
}

} // namespace

PlannedExits to_planned_exits(const resolve::FunctionReturns& returns, const elf::Image& image) {
  PlannedExits exits{.code = returns.code};
  const std::uint64_t begin = image.entry_data().value;
  for (const FileOffset offset : returns.returns)
    if (const auto address = image.to_address(ImageOffset{offset.value - begin}))
      exits.returns.push_back(*address);
  for (const resolve::FunctionReturns::TailCall& call : returns.tail_calls)
    exits.tail_calls.push_back({.address = call.address,
                                .condition = call.condition,
                                .source = call.source,
                                .returns = call.returns});
  return exits;
}

Result<resolve::FunctionReturns> to_returns(const PlannedExits& exits, const elf::Image& image) {
  resolve::FunctionReturns returns{.code = exits.code};
  for (const VirtualAddress address : exits.returns) {
    const auto offset = code_offset(image, address);
    if (!offset) return outside_code(address);
    returns.returns.push_back(*offset);
  }
  for (const PlannedExits::TailCall& call : exits.tail_calls) {
    const auto offset = code_offset(image, call.address);
    if (!offset) return outside_code(call.address);
    returns.tail_calls.push_back({.offset = *offset,
                                  .address = call.address,
                                  .callee = std::nullopt,
                                  .condition = call.condition,
                                  .source = call.source,
                                  .returns = call.returns});
  }
  return returns;
}

std::string write_plan(const AttachPlan& plan) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out, 2);
  json.object([&] {
    PlanWriter keys(json);
    describe_format(keys, plan_format);
    describe_version(keys, plan_version);
    plans::describe(keys, plan);
  });
  text += '\n';
  return text;
}

std::string write_plan_error(const Error& error) {
  std::string text;
  llvm::raw_string_ostream out(text);
  llvm::json::OStream json(out);
  json.object([&] {
    PlanWriter keys(json);
    describe_format(keys, plan_error_format);
    plans::describe(keys, error);
  });
  return text;
}

} // namespace uprobectl::plans
