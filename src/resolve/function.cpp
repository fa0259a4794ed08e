#include "resolve/function_state.hpp"

namespace uprobectl {

FunctionReader::FunctionReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
FunctionReader::FunctionReader(FunctionReader&&) noexcept = default;
FunctionReader& FunctionReader::operator=(FunctionReader&&) noexcept = default;
FunctionReader::~FunctionReader() = default;

Result<FunctionReader> FunctionReader::open(std::shared_ptr<const ProbedBinary> binary,
                                            std::vector<std::string> debug_places) {
  auto image = elf::Image::open(binary->file, binary->path);
  if (!image) return fail(std::move(image).error());
  return FunctionReader(std::make_unique<State>(
      std::move(binary), std::move(*image), elf::DebugSearch{.places = std::move(debug_places)}));
}

} // namespace uprobectl
