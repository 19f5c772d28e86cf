package built;

public class Built {
  public static int twice(int n) {
    return 2 * n;
  }
}
