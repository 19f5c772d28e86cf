package built;

import static org.junit.Assert.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.IntStream;
import org.junit.Test;

public class BuiltTest {
  @Test
  public void twice() {
    assertEquals(90, IntStream.range(0, 10).parallel().map(Built::twice).sum());
  }

  @Test
  public void files() throws Exception {
    Path p = Files.createTempFile("built", null);
    Files.setLastModifiedTime(p, java.nio.file.attribute.FileTime.fromMillis(1000));
    assertEquals(1000, Files.getLastModifiedTime(p).toMillis());
    Files.delete(p);
  }
}
